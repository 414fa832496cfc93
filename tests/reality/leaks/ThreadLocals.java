import java.util.concurrent.CountDownLatch;

/** Threads that wait for ever, each with a buffer in a ThreadLocal. */
public class ThreadLocals {
    static final ThreadLocal<byte[][]> BUFFERS = ThreadLocal.withInitial(() -> new byte[16][1 << 16]);

    public static void main(String[] arguments) throws InterruptedException {
        long end = System.nanoTime() + Long.parseLong(arguments[0]) * 1_000_000_000L;
        CountDownLatch never = new CountDownLatch(1);
        for (int step = 0; System.nanoTime() < end; step++) {
            System.out.println("step " + step);
            Thread thread = new Thread(() -> {
                BUFFERS.get()[0][0] = 1;
                try {
                    never.await();
                } catch (InterruptedException stop) {
                    return;
                }
            });
            thread.setDaemon(true);
            thread.start();
            Thread.sleep(100);
        }
    }
}
