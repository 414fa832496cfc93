"""Prints C with many functions, for compilers to work on.

    source.py [FUNCTIONS]
"""

import sys

print("#include <math.h>\n#include <stdio.h>\n#include <string.h>")
count = int(sys.argv[1]) if len(sys.argv) > 1 else 150
for i in range(count):
    print(f"""static double f{i}(double *v, int n)
{{
    double s = {i};
    for (int j = 0; j < n; j++) {{
        v[j] = v[j] * s + sqrt(fabs(v[j]) + {i % 7});
        if (v[j] > {i}) s += v[j] / (j + 1); else s -= sin(s) * {i % 13};
    }}
    return s;
}}""")
calls = " + ".join(f"f{i}(v, 50)" for i in range(count))
print(f"int main(void)\n{{\n    double v[50] = {{0}};\n    printf(\"%f\\n\", {calls});\n}}")
