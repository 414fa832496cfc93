import java.util.ArrayList;
import java.util.List;

/** Results are kept in a static list. */
public class StaticList {
    static final List<byte[]> RESULTS = new ArrayList<>();

    public static void main(String[] arguments) throws InterruptedException {
        long end = System.nanoTime() + Long.parseLong(arguments[0]) * 1_000_000_000L;
        for (int step = 0; System.nanoTime() < end; step++) {
            System.out.println("step " + step);
            for (int i = 0; i < 16; i++) RESULTS.add(new byte[1 << 16]);
            Thread.sleep(100);
        }
    }
}
