package org.flashmob.app;

import android.app.Activity;
import android.content.ClipData;
import android.content.ClipboardManager;
import android.content.Context;
import android.widget.TextView;
import android.widget.Toast;
import java.util.List;

/** The card with the last lines of the node's log. */
final class LogPane {
    private static final int LINES_SHOWN = 10;

    private final Activity activity;
    private final TextView text;
    private List<String> lines = java.util.Collections.emptyList();

    LogPane(Activity activity) {
        this.activity = activity;
        text = activity.findViewById(R.id.log);
        activity.findViewById(R.id.log_copy).setOnClickListener(view -> copy());
    }

    void show(List<String> newest) {
        if (newest.equals(lines) && text.length() > 0) {
            return;
        }
        lines = newest;
        if (lines.isEmpty()) {
            text.setText(R.string.log_empty);
        } else {
            text.setText(join(lines.subList(Math.max(0, lines.size() - LINES_SHOWN), lines.size())));
        }
    }

    private void copy() {
        ClipboardManager clipboard = (ClipboardManager) activity.getSystemService(Context.CLIPBOARD_SERVICE);
        clipboard.setPrimaryClip(ClipData.newPlainText(activity.getString(R.string.log_title), join(lines)));
        Toast.makeText(activity, R.string.log_copied, Toast.LENGTH_SHORT).show();
    }

    static String join(List<String> lines) {
        StringBuilder joined = new StringBuilder();
        for (String line : lines) {
            joined.append(joined.length() == 0 ? "" : "\n").append(line);
        }
        return joined.toString();
    }
}
