<?php
// PHP: a page of a hundred rows.
for ($i = 0; $i < 100; $i++) {
    echo htmlspecialchars("row $i"), "<br>";
}
