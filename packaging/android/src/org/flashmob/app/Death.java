package org.flashmob.app;

import java.util.List;
import java.util.Locale;

/** Why a node ended, in words for whoever holds the device, out of its exit status and its last lines. */
final class Death {
    /** Exit statuses of processes that a signal ended are 128 and the signal's number. */
    private static final int SIGNAL_BASE = 128;
    private static final int SIGKILL = 9;
    private static final int SIGSYS = 31;

    private Death() {}

    /** The sentence for it, of strings.xml. */
    static int sentence(int status, List<String> lastLines) {
        // Old Androids may give the signal's number as a negative one.
        int signal = status < 0 ? -status : status - SIGNAL_BASE;
        if (signal == SIGSYS) {
            return R.string.death_forbidden_call;
        }
        if (signal == SIGKILL) {
            return R.string.death_killed;
        }
        for (int i = lastLines.size() - 1; i >= 0; i--) {
            String line = lastLines.get(i).toLowerCase(Locale.ROOT);
            if (line.contains("not enrolled") || line.contains("that is no link") || line.contains("without keys anyone") || line.contains("names no cluster")
                    || (line.contains("belongs to cluster") && line.contains("not to "))) {
                return R.string.death_not_enrolled;
            }
            if (line.contains("address already in use") || line.contains("address in use")) {
                return R.string.death_port_in_use;
            }
            if (line.contains("no space left")) {
                return R.string.death_no_space;
            }
            if (line.contains("already served") || line.contains("another node") || line.contains("locked by")) {
                return R.string.death_locked;
            }
            if (line.contains("unexpected argument") || line.contains("invalid value")) {
                return R.string.death_bad_argument;
            }
            if (line.contains("memory allocation") || line.contains("out of memory")) {
                return R.string.death_no_memory;
            }
        }
        return R.string.death_unknown;
    }

    /** For a program that could not even be started. */
    static int sentence(java.io.IOException e) {
        String message = String.valueOf(e.getMessage()).toLowerCase(Locale.ROOT);
        if (message.contains("exec format") || message.contains("error=8")) {
            return R.string.death_wrong_processor;
        }
        return message.contains("error=2") || message.contains("no such file") ? R.string.death_no_binary : R.string.death_not_started;
    }
}
