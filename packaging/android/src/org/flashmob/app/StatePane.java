package org.flashmob.app;

import android.app.Activity;
import android.content.res.Resources;
import android.graphics.drawable.GradientDrawable;
import android.view.View;
import android.widget.Button;
import android.widget.ImageView;
import android.widget.TextView;

/** The card with the state: what is going on, the big figure, and the one button that matters. */
final class StatePane {
    /** Lines of the log that are shown with a failure. */
    private static final int LAST_WORDS = 3;

    private final View card;
    private final ImageView icon;
    private final TextView title;
    private final TextView detail;
    private final TextView lastWords;
    private final View figures;
    private final TextView figure;
    private final Sparkline sparkline;
    private final Button button;
    private final Words words;
    private final Resources resources;

    StatePane(Activity activity, Runnable toggle) {
        card = activity.findViewById(R.id.card_state);
        icon = activity.findViewById(R.id.state_icon);
        title = activity.findViewById(R.id.state_title);
        detail = activity.findViewById(R.id.state_detail);
        lastWords = activity.findViewById(R.id.state_log);
        figures = activity.findViewById(R.id.state_figures);
        figure = activity.findViewById(R.id.state_figure);
        sparkline = activity.findViewById(R.id.state_sparkline);
        button = activity.findViewById(R.id.state_button);
        resources = activity.getResources();
        words = new Words(resources);
        button.setOnClickListener(view -> toggle.run());
    }

    void show(Snapshot snapshot, boolean canStart) {
        boolean serving = snapshot.phase == Supervisor.Phase.SERVING;
        int back = color(backColor(snapshot.phase));
        int front = color(frontColor(snapshot.phase));
        ((GradientDrawable) card.getBackground().mutate()).setColor(back);
        icon.setImageResource(iconOf(snapshot.phase));
        icon.setColorFilter(front);
        setText(title, words.title(snapshot));
        setText(detail, words.detail(snapshot));
        title.setTextColor(front);
        detail.setTextColor(front);
        figure.setTextColor(front);
        boolean showsFigures = serving && snapshot.status != null && snapshot.status.gateways > 0;
        figures.setVisibility(showsFigures ? View.VISIBLE : View.GONE);
        sparkline.setVisibility(showsFigures ? View.VISIBLE : View.GONE);
        figure.setText(Words.figure(snapshot.rates.requestsPerSecond));
        ((TextView) card.findViewById(R.id.state_unit)).setTextColor(front);
        sparkline.show(snapshot.history, front);
        boolean failed = snapshot.phase == Supervisor.Phase.FAILED;
        lastWords.setVisibility(failed && !snapshot.log.isEmpty() ? View.VISIBLE : View.GONE);
        lastWords.setText(LogPane.join(snapshot.log.subList(Math.max(0, snapshot.log.size() - LAST_WORDS), snapshot.log.size())));
        lastWords.setTextColor(front);
        boolean over = snapshot.isOver();
        button.setText(!over ? R.string.stop : failed ? R.string.start_again : R.string.start);
        button.setEnabled(over ? canStart : snapshot.phase != Supervisor.Phase.STOPPING);
        button.setAlpha(button.isEnabled() ? 1f : 0.5f);
        button.setBackgroundResource(over ? R.drawable.button_filled : R.drawable.button_outlined);
        button.setTextColor(over ? color(R.color.on_primary) : front);
    }

    /** Only if it differs: a screen reader says every text that is set in a live region. */
    private static void setText(TextView view, String text) {
        if (!text.contentEquals(view.getText())) {
            view.setText(text);
        }
    }

    private static int iconOf(Supervisor.Phase phase) {
        switch (phase) {
            case SERVING:
                return R.drawable.ic_serving;
            case PAUSED:
                return R.drawable.ic_pause;
            case FAILED:
                return R.drawable.ic_warning;
            case STOPPED:
                return R.drawable.ic_idle;
            default:
                return R.drawable.ic_busy;
        }
    }

    private static int backColor(Supervisor.Phase phase) {
        switch (phase) {
            case SERVING:
                return R.color.serving;
            case PAUSED:
            case WAITING:
                return R.color.paused;
            case FAILED:
                return R.color.failed;
            default:
                return R.color.card;
        }
    }

    private static int frontColor(Supervisor.Phase phase) {
        switch (phase) {
            case SERVING:
                return R.color.on_serving;
            case PAUSED:
            case WAITING:
                return R.color.on_paused;
            case FAILED:
                return R.color.on_failed;
            default:
                return R.color.on_card;
        }
    }

    private int color(int id) {
        return resources.getColor(id);
    }
}
