import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Threads that allocate, garbage collections, child processes, and a shutdown hook. Prints the same each time. */
public class Busy {
    public static void main(String[] arguments) throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("ended")));
        List<Future<Long>> sums = new ArrayList<>();
        try (var threads = new Threads(8)) {
            for (int task = 0; task < 32; task++) {
                final int seed = task;
                sums.add(threads.pool.submit(() -> sum(seed)));
            }
            long all = 0;
            for (var sum : sums) {
                all += sum.get();
            }
            System.out.println("sum " + all);
        }
        System.gc();
        for (int child = 0; child < 5; child++) {
            var process = new ProcessBuilder("sh", "-c", "echo child " + child + "; exit " + child).start();
            System.out.print(new String(process.getInputStream().readAllBytes()));
            System.out.println("status " + process.waitFor());
        }
        try {
            deep(0);
        } catch (StackOverflowError caught) {
            // The virtual machine's own handler of SIGSEGV.
            System.out.println("stack overflow caught");
        }
        int[] nothing = arguments.length > 100 ? new int[1] : null;
        try {
            System.out.println(nothing[0]);
        } catch (NullPointerException caught) {
            System.out.println("null caught");
        }
    }

    private static long sum(int seed) {
        long sum = 0;
        for (int round = 0; round < 200; round++) {
            byte[] block = new byte[64 << 10];
            block[seed * 7] = (byte) round;
            for (byte value : block) {
                sum += value;
            }
        }
        return sum;
    }

    private static int deep(int level) {
        return deep(level + 1) + 1;
    }

    private static final class Threads implements AutoCloseable {
        final java.util.concurrent.ExecutorService pool;

        Threads(int count) {
            pool = Executors.newFixedThreadPool(count);
        }

        @Override
        public void close() {
            pool.shutdown();
        }
    }
}
