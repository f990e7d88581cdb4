package org.flashmob.app;

import java.util.Locale;

/**
 * Where a gateway takes nodes in: a host and a port, out of what was typed or out of the text of a QR code,
 * {@code flashmob://join/HOST:PORT}.
 *
 * <p>What comes in was written by a stranger (any web page can hold such a link), so all of it is checked and nothing is guessed.
 * It must never look a name up: that blocks.
 */
final class JoinAddress {
    static final String LINK_PREFIX = "flashmob://join/";
    /** Longer than any host name (253) with a port; what is longer is not even looked at. */
    static final int TEXT_CHARS_MAX = 300;
    private static final int HOST_CHARS_MAX = 253;
    private static final int LABEL_CHARS_MAX = 63;

    /** What is wrong with an address; the screen has a sentence for each. */
    enum Problem { TOO_LONG, NOT_A_JOIN_LINK, NO_PORT, BAD_PORT, BAD_HOST, BAD_CODE }

    /** An address that cannot be used. */
    static final class BadAddress extends Exception {
        private static final long serialVersionUID = 1L;

        final Problem problem;

        BadAddress(Problem problem) {
            super(problem.name());
            this.problem = problem;
        }
    }

    /** A name, an IPv4 address, or an IPv6 address without brackets. */
    final String host;
    final int port;

    private JoinAddress(String host, int port) {
        this.host = host;
        this.port = port;
    }

    static JoinAddress parse(String written) throws BadAddress {
        String text = written == null ? "" : written.trim();
        if (text.length() > TEXT_CHARS_MAX) {
            throw new BadAddress(Problem.TOO_LONG);
        }
        if (text.contains("://")) {
            if (!text.toLowerCase(Locale.ROOT).startsWith(LINK_PREFIX)) {
                throw new BadAddress(Problem.NOT_A_JOIN_LINK);
            }
            text = text.substring(LINK_PREFIX.length());
            if (text.endsWith("/")) {
                text = text.substring(0, text.length() - 1);
            }
        }
        int colon = text.lastIndexOf(':');
        boolean bracketed = text.startsWith("[");
        if (colon < 0 || (bracketed && !text.contains("]:"))) {
            throw new BadAddress(Problem.NO_PORT);
        }
        int port = port(text.substring(colon + 1));
        String host = text.substring(0, colon);
        if (bracketed) {
            host = host.substring(1, host.length() - 1);
            if (!isIpv6(host)) {
                throw new BadAddress(Problem.BAD_HOST);
            }
        } else if (!isIpv4(host) && !isName(host)) {
            throw new BadAddress(Problem.BAD_HOST);
        }
        return new JoinAddress(host.toLowerCase(Locale.ROOT), port);
    }

    /** HOST:PORT, as {@code flashmob node --join} takes it. */
    @Override
    public String toString() {
        return at(host);
    }

    /** The same port at another host, such as the address that a name stands for. */
    String at(String otherHost) {
        return (otherHost.indexOf(':') >= 0 ? "[" + otherHost + "]" : otherHost) + ":" + port;
    }

    /** The URL of the gateway's live page, which is at the same port; with keys over TLS. */
    String page(boolean withKeys) {
        return (withKeys ? "https://" : "http://") + this + "/";
    }

    /** Whether it is an address already, and no name to look up. */
    boolean isNumeric() {
        return isIpv4(host) || host.indexOf(':') >= 0;
    }

    /** Whether it surely is on a network of one's own: private, link-local or loopback addresses, and names under .local and the like. */
    boolean isNearby() {
        if (isIpv4(host)) {
            String[] parts = host.split("\\.");
            int first = Integer.parseInt(parts[0]);
            int second = Integer.parseInt(parts[1]);
            return first == 10 || first == 127 || (first == 192 && second == 168) || (first == 169 && second == 254)
                    || (first == 172 && second >= 16 && second <= 31) || (first == 100 && second >= 64 && second <= 127);
        }
        if (host.indexOf(':') >= 0) {
            // fe80::/10 and fc00::/7; a shorter first group is another number.
            return host.equals("::1") || (host.indexOf(':') == 4
                    && (host.startsWith("fc") || host.startsWith("fd") || (host.startsWith("fe") && "89ab".indexOf(host.charAt(2)) >= 0)));
        }
        return host.indexOf('.') < 0 || host.endsWith(".local") || host.endsWith(".lan") || host.endsWith(".home.arpa");
    }

    private static int port(String digits) throws BadAddress {
        if (digits.isEmpty()) {
            throw new BadAddress(Problem.NO_PORT);
        }
        if (digits.length() > 5 || !hasOnly(digits, "0123456789")) {
            throw new BadAddress(Problem.BAD_PORT);
        }
        int port = Integer.parseInt(digits);
        if (port < 1 || port > 65535) {
            throw new BadAddress(Problem.BAD_PORT);
        }
        return port;
    }

    private static boolean isIpv4(String host) {
        String[] parts = host.split("\\.", -1);
        if (parts.length != 4) {
            return false;
        }
        for (String part : parts) {
            if (part.isEmpty() || part.length() > 3 || !hasOnly(part, "0123456789") || Integer.parseInt(part) > 255) {
                return false;
            }
        }
        return true;
    }

    /** Strict enough that nothing but an address passes; whether it is one is for the socket to say. */
    private static boolean isIpv6(String host) {
        int colons = host.length() - host.replace(":", "").length();
        return colons >= 2 && colons <= 7 && host.length() <= 39 && hasOnly(host.toLowerCase(Locale.ROOT), "0123456789abcdef:");
    }

    private static boolean isName(String host) {
        if (host.isEmpty() || host.length() > HOST_CHARS_MAX) {
            return false;
        }
        String[] labels = host.toLowerCase(Locale.ROOT).split("\\.", -1);
        for (String label : labels) {
            if (label.isEmpty() || label.length() > LABEL_CHARS_MAX || label.startsWith("-") || label.endsWith("-")
                    || !hasOnly(label, "abcdefghijklmnopqrstuvwxyz0123456789-")) {
                return false;
            }
        }
        // 1.2.3 and 300.1.1.1 are mistyped addresses, not names: a name does not end in a number.
        return !hasOnly(labels[labels.length - 1], "0123456789");
    }

    private static boolean hasOnly(String text, String allowed) {
        for (int i = 0; i < text.length(); i++) {
            if (allowed.indexOf(text.charAt(i)) < 0) {
                return false;
            }
        }
        return true;
    }
}
