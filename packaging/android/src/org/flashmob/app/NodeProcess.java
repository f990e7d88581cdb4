package org.flashmob.app;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.util.List;

/** The one child process. It has threads and no children, so Android's limit on phantom processes does not meet it. */
final class NodeProcess {
    /** Called on the thread that reads what the process writes. */
    interface Listener {
        void onLine(String line);

        void onEnd(int status);
    }

    private final Process process;
    private final Signals signals;

    private NodeProcess(Process process, Signals signals) {
        this.process = process;
        this.signals = signals;
    }

    /** With {@code input} as all of its standard input; null for none. */
    static NodeProcess start(List<String> command, File folder, Signals signals, String input, Listener listener) throws IOException {
        Process process = new ProcessBuilder(command).directory(folder).redirectErrorStream(true).start();
        try (OutputStream stdin = process.getOutputStream()) {
            if (input != null) {
                stdin.write((input + "\n").getBytes("UTF-8"));
            }
        } catch (IOException e) {
            // It has ended already; why, its last lines say.
        }
        Thread reader = new Thread(() -> follow(process, listener), "node-output");
        reader.start();
        return new NodeProcess(process, signals);
    }

    void terminate() {
        signals.terminate(process);
    }

    void kill() {
        signals.kill(process);
    }

    private static void follow(Process process, Listener listener) {
        try (BufferedReader output = new BufferedReader(new InputStreamReader(process.getInputStream(), "UTF-8"))) {
            String line = output.readLine();
            while (line != null) {
                listener.onLine(line);
                line = output.readLine();
            }
        } catch (IOException e) {
            // Old Androids close the stream under the reader when the process is destroyed.
        }
        listener.onEnd(await(process));
    }

    private static int await(Process process) {
        while (true) {
            try {
                return process.waitFor();
            } catch (InterruptedException e) {
                // Nobody interrupts this thread on purpose, and the process must not be left unwaited for.
            }
        }
    }
}
