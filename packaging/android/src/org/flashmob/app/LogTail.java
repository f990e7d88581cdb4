package org.flashmob.app;

import java.text.SimpleDateFormat;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The last lines that the node wrote, bounded in number and length. */
final class LogTail {
    private static final int LINES_MAX = 200;
    private static final int LINE_CHARS_MAX = 500;
    /** How the node begins a line: [2026-11-22T07:11:15Z INFO ]. */
    private static final Pattern PREFIX = Pattern.compile("^\\[\\S+Z (\\w+) *\\] ");

    private final ArrayDeque<String> lines = new ArrayDeque<>();

    synchronized void add(String line) {
        String shown = line.length() > LINE_CHARS_MAX ? line.substring(0, LINE_CHARS_MAX) : line;
        if (lines.size() == LINES_MAX) {
            lines.removeFirst();
        }
        lines.addLast(new SimpleDateFormat("HH:mm:ss", Locale.ROOT).format(new Date()) + "  " + plain(shown));
    }

    synchronized List<String> last(int count) {
        List<String> all = new ArrayList<>(lines);
        return all.subList(Math.max(0, all.size() - count), all.size());
    }

    /** Without the node's own time, which is UTC and not the clock on the wall; with its level only where that says something. */
    private static String plain(String line) {
        Matcher prefix = PREFIX.matcher(line);
        if (!prefix.find()) {
            return line;
        }
        String rest = line.substring(prefix.end());
        String level = prefix.group(1);
        return level.equals("INFO") || level.equals("DEBUG") ? rest : level + ": " + rest;
    }
}
