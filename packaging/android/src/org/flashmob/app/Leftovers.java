package org.flashmob.app;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/**
 * Nodes that an earlier life of the app left running: where Android kills an app without its children, the old node still holds the lock
 * on the data and its port. Only processes of this app's own user can be seen and ended, and only those that run its own binary are.
 */
final class Leftovers {
    private static final int COMMAND_BYTES_MAX = 1024;

    private Leftovers() {}

    /** Asks them to end and waits a while for it. Blocks. */
    static void end(File proc, String binary, Signals signals, long patienceMs) throws InterruptedException {
        List<Integer> pids = find(proc, binary);
        for (int pid : pids) {
            signals.send(pid, Signals.TERMINATE);
        }
        long waitedMs = 0;
        while (!pids.isEmpty() && waitedMs < patienceMs) {
            Thread.sleep(50);
            waitedMs += 50;
            pids = find(proc, binary);
        }
        for (int pid : pids) {
            signals.send(pid, Signals.KILL);
        }
    }

    static List<Integer> find(File proc, String binary) {
        List<Integer> found = new ArrayList<>();
        String[] names = proc.list();
        if (names == null) {
            return found;
        }
        for (String name : names) {
            if (!name.isEmpty() && Character.isDigit(name.charAt(0)) && program(new File(proc, name + "/cmdline")).equals(binary)) {
                found.add(Integer.parseInt(name));
            }
        }
        return found;
    }

    /** The first word of a command line; empty if it may not be read or has none. */
    private static String program(File cmdline) {
        try (FileInputStream in = new FileInputStream(cmdline)) {
            byte[] bytes = new byte[COMMAND_BYTES_MAX];
            int length = Math.max(0, in.read(bytes));
            int end = 0;
            while (end < length && bytes[end] != 0) {
                end++;
            }
            return new String(bytes, 0, end, "UTF-8");
        } catch (IOException e) {
            return "";
        }
    }
}
