package org.flashmob.app;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A link that was accepted on the screen, on its way to the node's standard input. It has a secret, so it is in memory alone: neither among
 * preferences nor among arguments, and gone as soon as the node says what became of it.
 */
final class Enrolment {
    /** Both screens show these digits while somebody has to confirm this device at the gateway: a message of the node that has nothing else, as {@link LogTail} keeps it. */
    private static final Pattern DIGITS = Pattern.compile("[0-9:]{8}  ([0-9]{3} [0-9]{3})");
    private static volatile String link;

    private Enrolment() {}

    static void accept(String accepted) {
        link = accepted;
    }

    static void forget() {
        link = null;
    }

    /** The link; null without one. It stays until it is over: a node that dies in between starts again with it. */
    static String link() {
        return link;
    }

    /** What a node says that was started with {@code given}; another link may have been accepted meanwhile. */
    static void heard(String given, String line) {
        boolean over = line.contains("given to cluster") || line.contains("belongs to cluster") || line.contains("not enrolled")
                || line.contains("that is no link");
        if (over && given != null && given.equals(link)) {
            link = null;
        }
    }

    /** What the gateway must show for this device; null if nothing waits for that. */
    static String digits(List<String> log) {
        String digits = null;
        for (String line : log) {
            Matcher matcher = DIGITS.matcher(line);
            if (matcher.matches()) {
                digits = matcher.group(1);
            } else if (line.contains("given to cluster") || line.contains("not enrolled") || line.contains("trying again")) {
                digits = null;
            }
        }
        return digits;
    }
}
