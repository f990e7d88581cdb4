package org.flashmob.app;

import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The command line of the node. It starts nothing. */
final class NodeCommand {
    static final int LISTEN_PORT = 7411;
    static final int ADMIN_PORT = 7412;
    private static final int NAME_CHARS_MAX = 40;

    private NodeCommand() {}

    /**
     * @param join HOST:PORT with an address, since a static binary finds no name service on Android; null for none
     * @param open whether it may serve without keys: not once a link to a cluster with keys was accepted
     * @param enrolls whether the link of a cluster with keys comes by standard input
     */
    static List<String> of(File binary, File data, long sizeBytes, int listenPort, int adminPort, File deviceState, String name, String join,
            boolean open, boolean enrolls) {
        List<String> command = new ArrayList<>(Arrays.asList(
                binary.getPath(), "node",
                "--data", data.getPath(),
                "--size", Long.toString(sizeBytes),
                "--listen", "0.0.0.0:" + listenPort,
                "--admin", "127.0.0.1:" + adminPort,
                "--device-state", deviceState.getPath()));
        String plain = plainName(name);
        if (!plain.isEmpty()) {
            // As one word: a name may begin with a dash.
            command.add("--name=" + plain);
        }
        if (join != null) {
            command.add("--join");
            command.add(join);
        }
        if (open) {
            command.add("--insecure");
        }
        if (enrolls) {
            command.add("--token-file");
            command.add("-");
        }
        return command;
    }

    /** A name as others may show it: letters, digits, spaces and a few signs, not too long. */
    static String plainName(String name) {
        StringBuilder plain = new StringBuilder();
        for (int i = 0; i < name.length() && plain.length() < NAME_CHARS_MAX; i++) {
            char c = name.charAt(i);
            boolean ascii = c < 128 && (Character.isLetterOrDigit(c) || "-_.()+ ".indexOf(c) >= 0);
            plain.append(ascii ? c : '-');
        }
        return plain.toString().trim();
    }
}
