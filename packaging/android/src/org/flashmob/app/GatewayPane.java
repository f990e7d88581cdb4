package org.flashmob.app;

import android.app.Activity;
import android.app.AlertDialog;
import android.content.ActivityNotFoundException;
import android.content.Intent;
import android.net.Uri;
import android.provider.MediaStore;
import android.view.View;
import android.view.inputmethod.EditorInfo;
import android.widget.EditText;
import android.widget.TextView;
import android.widget.Toast;

/**
 * The card of the gateway: where this node is to be told of, typed or out of a link.
 *
 * <p>Codes are read by the system's camera, which opens flashmob:// links with this app: so the app needs no camera permission and
 * no decoder. A link comes from anywhere, so it is never followed without asking.
 */
final class GatewayPane {
    private final Activity activity;
    private final Preferences preferences;
    private final EditText address;
    private final TextView problem;
    private final TextView own;
    private final View pageButton;
    private final Runnable changed;
    private final Runnable enrolling;

    GatewayPane(Activity activity, Runnable changed, Runnable enrolling) {
        this.activity = activity;
        this.changed = changed;
        this.enrolling = enrolling;
        preferences = new Preferences(activity);
        address = activity.findViewById(R.id.gateway);
        problem = activity.findViewById(R.id.gateway_problem);
        own = activity.findViewById(R.id.own_address);
        pageButton = activity.findViewById(R.id.gateway_page);
        address.setSaveEnabled(false);
        address.setText(preferences.join());
        address.setOnEditorActionListener((view, action, event) -> {
            if (action == EditorInfo.IME_ACTION_DONE) {
                keep();
            }
            return false;
        });
        activity.findViewById(R.id.gateway_keep).setOnClickListener(view -> keep());
        activity.findViewById(R.id.gateway_camera).setOnClickListener(view -> openCamera());
        pageButton.setOnClickListener(view -> openPage());
        showPageButton();
    }

    /** Where others reach this device; empty if nowhere. */
    void showOwn(String ownAddress) {
        own.setText(ownAddress.isEmpty() ? activity.getString(R.string.own_none) : activity.getString(R.string.own, ownAddress));
    }

    /** A link was opened, by the camera or by anything else. */
    void offer(String link) {
        try {
            JoinLink join = JoinLink.parse(link);
            String place = join.address.toString();
            boolean near = join.address.isNearby();
            if (join.invitation == null) {
                ask(R.string.join_title, activity.getString(near ? R.string.join_message : R.string.join_message_far, place), R.string.join, () -> take(place));
            } else {
                String message = activity.getString(near ? R.string.enroll_message : R.string.enroll_message_far, join.fingerprint, place);
                ask(R.string.enroll_title, message, R.string.enroll, () -> enroll(join.invitation));
            }
        } catch (JoinAddress.BadAddress e) {
            new AlertDialog.Builder(activity)
                    .setTitle(R.string.join_bad_title)
                    .setMessage(sentence(e.problem))
                    .setPositiveButton(android.R.string.ok, null)
                    .show();
        }
    }

    private void ask(int title, String message, int yes, Runnable action) {
        AlertDialog question = new AlertDialog.Builder(activity)
                .setTitle(title)
                .setMessage(message)
                .setPositiveButton(yes, (dialog, which) -> action.run())
                .setNegativeButton(R.string.cancel, null)
                .show();
        CoveredTouches.refuse(question);
    }

    private void enroll(String invitation) {
        preferences.setKeysWanted(true);
        Enrolment.accept(invitation);
        enrolling.run();
    }

    private void keep() {
        String written = address.getText().toString().trim();
        if (written.isEmpty()) {
            take("");
            return;
        }
        if (written.indexOf('#') >= 0) {
            // It has a secret, which is neither shown nor kept.
            address.setText(preferences.join());
            offer(written);
            return;
        }
        try {
            take(JoinAddress.parse(written).toString());
        } catch (JoinAddress.BadAddress e) {
            problem.setText(sentence(e.problem));
            problem.setVisibility(View.VISIBLE);
        }
    }

    private void take(String join) {
        problem.setVisibility(View.GONE);
        address.setText(join);
        address.clearFocus();
        if (!join.equals(preferences.join())) {
            preferences.setJoin(join);
            showPageButton();
            changed.run();
        }
        Toast.makeText(activity, join.isEmpty() ? R.string.join_none : R.string.join_kept, Toast.LENGTH_SHORT).show();
    }

    private void openCamera() {
        try {
            activity.startActivity(new Intent(MediaStore.INTENT_ACTION_STILL_IMAGE_CAMERA));
        } catch (ActivityNotFoundException e) {
            Toast.makeText(activity, R.string.camera_none, Toast.LENGTH_LONG).show();
        }
    }

    private void showPageButton() {
        pageButton.setVisibility(page().isEmpty() ? View.GONE : View.VISIBLE);
    }

    /** The URL of the gateway's page; empty if no gateway is kept. */
    private String page() {
        try {
            return JoinAddress.parse(preferences.join()).page(preferences.areKeysWanted());
        } catch (JoinAddress.BadAddress e) {
            return "";
        }
    }

    private void openPage() {
        try {
            activity.startActivity(new Intent(Intent.ACTION_VIEW, Uri.parse(page())));
        } catch (ActivityNotFoundException e) {
            Toast.makeText(activity, R.string.browser_none, Toast.LENGTH_LONG).show();
        }
    }

    private static int sentence(JoinAddress.Problem problem) {
        switch (problem) {
            case TOO_LONG:
                return R.string.address_too_long;
            case NOT_A_JOIN_LINK:
                return R.string.address_not_a_link;
            case NO_PORT:
                return R.string.address_no_port;
            case BAD_PORT:
                return R.string.address_bad_port;
            case BAD_CODE:
                return R.string.address_bad_code;
            default:
                return R.string.address_bad_host;
        }
    }
}
