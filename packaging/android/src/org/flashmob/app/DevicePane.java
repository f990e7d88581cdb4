package org.flashmob.app;

import android.app.Activity;
import android.app.AlertDialog;
import android.view.View;
import android.view.inputmethod.EditorInfo;
import android.widget.Button;
import android.widget.EditText;
import android.widget.ImageButton;
import android.widget.SeekBar;
import android.widget.TextView;

/** The card of this device: how much it lends and what it is called. An extent that exists keeps its size until its data is deleted. */
final class DevicePane {
    private final Activity activity;
    private final Preferences preferences;
    private final Surroundings surroundings;
    private final TextView size;
    private final TextView about;
    private final View chooser;
    private final SeekBar slider;
    private final ImageButton less;
    private final ImageButton more;
    private final EditText name;
    private final Button delete;
    private final Runnable changed;
    private SizeChoice choice;

    /** {@code changed} is called when a setting of the node became another. */
    DevicePane(Activity activity, Runnable changed) {
        this.activity = activity;
        this.changed = changed;
        preferences = new Preferences(activity);
        surroundings = Surroundings.of(activity);
        size = activity.findViewById(R.id.size_figure);
        about = activity.findViewById(R.id.size_about);
        chooser = activity.findViewById(R.id.size_chooser);
        slider = activity.findViewById(R.id.size_slider);
        less = activity.findViewById(R.id.size_less);
        more = activity.findViewById(R.id.size_more);
        name = activity.findViewById(R.id.name);
        delete = activity.findViewById(R.id.delete);
        // The slider's position is that of the steps now, never one that was saved when there was other room.
        slider.setSaveEnabled(false);
        name.setSaveEnabled(false);
        name.setText(preferences.name());
        name.setOnEditorActionListener((view, action, event) -> {
            if (action == EditorInfo.IME_ACTION_DONE) {
                keepName();
            }
            return false;
        });
        name.setOnFocusChangeListener((view, focused) -> {
            if (!focused) {
                keepName();
            }
        });
        less.setOnClickListener(view -> choose(slider.getProgress() - 1));
        more.setOnClickListener(view -> choose(slider.getProgress() + 1));
        slider.setOnSeekBarChangeListener(new SeekBar.OnSeekBarChangeListener() {
            @Override
            public void onProgressChanged(SeekBar bar, int step, boolean byUser) {
                if (byUser) {
                    choose(step);
                }
            }

            @Override
            public void onStartTrackingTouch(SeekBar bar) {}

            @Override
            public void onStopTrackingTouch(SeekBar bar) {}
        });
        delete.setOnClickListener(view -> askToDelete());
    }

    /** Asks the disk anew; to be called when the screen comes up and when the state changes. */
    void refresh(boolean over) {
        choice = new SizeChoice(surroundings.freeBytes(), surroundings.totalBytes());
        boolean exists = surroundings.hasData();
        chooser.setVisibility(exists || choice.isEmpty() ? View.GONE : View.VISIBLE);
        delete.setVisibility(exists ? View.VISIBLE : View.GONE);
        delete.setEnabled(over);
        delete.setAlpha(over ? 1f : 0.5f);
        String free = Words.size(choice.freeBytes);
        if (exists) {
            size.setText(Words.size(surroundings.data().length()));
            about.setText(activity.getString(R.string.size_exists, free));
        } else if (choice.isEmpty()) {
            size.setText(R.string.size_none);
            about.setText(activity.getString(R.string.size_none_about, free, Words.size(choice.reserveBytes)));
        } else {
            long chosen = preferences.sizeBytes();
            slider.setMax(choice.steps.size() - 1);
            choose(choice.indexOf(chosen == 0 ? choice.usualBytes() : chosen));
            about.setText(activity.getString(R.string.size_about, free, Words.size(choice.reserveBytes)));
        }
    }

    /** Whether there is something to serve. */
    boolean canStart() {
        return surroundings.hasData() || (choice != null && !choice.isEmpty());
    }

    void keepName() {
        String plain = NodeCommand.plainName(name.getText().toString());
        if (!plain.equals(preferences.name())) {
            preferences.setName(plain);
            name.setText(plain);
            changed.run();
        }
    }

    private void choose(int step) {
        int bounded = Math.max(0, Math.min(step, choice.steps.size() - 1));
        long bytes = choice.steps.get(bounded);
        preferences.setSizeBytes(bytes);
        slider.setProgress(bounded);
        size.setText(Words.size(bytes));
        slider.setContentDescription(activity.getString(R.string.size_slider, Words.size(bytes)));
        less.setEnabled(bounded > 0);
        more.setEnabled(bounded < choice.steps.size() - 1);
        less.setAlpha(less.isEnabled() ? 1f : 0.35f);
        more.setAlpha(more.isEnabled() ? 1f : 0.35f);
    }

    private void askToDelete() {
        new AlertDialog.Builder(activity)
                .setTitle(R.string.delete_title)
                .setMessage(activity.getString(R.string.delete_message, Words.size(surroundings.data().length())))
                .setPositiveButton(R.string.delete, (dialog, which) -> {
                    deleteData();
                    refresh(true);
                })
                .setNegativeButton(R.string.cancel, null)
                .show();
    }

    private void deleteData() {
        // The identity first: data without one is taken for a new extent, one without data would be refused.
        boolean deleted = (!surroundings.identity().exists() || surroundings.identity().delete())
                // A key without an identity is refused as well.
                && (!surroundings.key().exists() || surroundings.key().delete())
                && (!surroundings.checksums().exists() || surroundings.checksums().delete())
                && surroundings.data().delete();
        if (deleted) {
            preferences.setKeysWanted(false);
            Enrolment.forget();
        } else {
            android.widget.Toast.makeText(activity, R.string.delete_failed, android.widget.Toast.LENGTH_LONG).show();
        }
    }
}
