// Java: objects of all ages, most of them short-lived; a map that is kept at one size.

import java.util.HashMap;
import java.util.Map;
import java.util.Random;

public class Churn {
    public static void main(String[] arguments) {
        long end = System.nanoTime() + Long.parseLong(arguments[0]) * 1_000_000_000L;
        Map<Integer, byte[]> kept = new HashMap<>();
        Random random = new Random(1);
        for (int step = 1; System.nanoTime() < end; step++) {
            for (int i = 0; i < 200_000; i++) {
                int key = random.nextInt(20_000);
                kept.put(key, String.format("row %06d of step %06d", key, step).repeat(1 + key % 20).getBytes());
            }
            System.out.println("step " + step);
        }
    }
}
