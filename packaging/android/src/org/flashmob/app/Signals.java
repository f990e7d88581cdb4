package org.flashmob.app;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Asking a child process to end, and ending it.
 *
 * <p>By signal, and not by {@link Process#destroy}: that kills at once before Android 7, so that what was not flushed would be lost, and
 * from 7 on it closes the pipe under the node, whose last words would be.
 */
class Signals {
    static final int TERMINATE = 15;
    static final int KILL = 9;
    private static final Pattern NUMBER = Pattern.compile("\\[p?id=(\\d+)");

    /** Asks it to finish what it has in hand and to end. */
    final void terminate(Process process) {
        signal(process, TERMINATE);
    }

    final void kill(Process process) {
        signal(process, KILL);
    }

    private void signal(Process process, int signal) {
        int pid = pid(process);
        if (pid > 0) {
            send(pid, signal);
        } else {
            process.destroy();
        }
    }

    void send(int pid, int signal) {
        android.os.Process.sendSignal(pid, signal);
    }

    /** Its number out of what it prints as, since Android has no other public way to it; 0 if that tells none. */
    static int pid(Process process) {
        Matcher number = NUMBER.matcher(process.toString());
        return number.find() ? Integer.parseInt(number.group(1)) : 0;
    }
}
