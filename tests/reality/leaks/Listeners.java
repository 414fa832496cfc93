import java.beans.PropertyChangeSupport;

/** Every window adds a listener to a model that outlives it. */
public class Listeners {
    static final PropertyChangeSupport MODEL = new PropertyChangeSupport("model");

    public static void main(String[] arguments) throws InterruptedException {
        long end = System.nanoTime() + Long.parseLong(arguments[0]) * 1_000_000_000L;
        for (int step = 0; System.nanoTime() < end; step++) {
            System.out.println("step " + step);
            for (int i = 0; i < 16; i++) {
                byte[] window = new byte[1 << 16];
                MODEL.addPropertyChangeListener(change -> window[0]++);
            }
            Thread.sleep(100);
        }
    }
}
