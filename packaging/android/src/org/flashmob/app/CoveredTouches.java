package org.flashmob.app;

import android.app.AlertDialog;
import android.view.MotionEvent;
import android.view.View;
import android.widget.Button;
import android.widget.Toast;

/**
 * Touches on a dialog while a window of another app lies over it, or over a part of it: what is shown then need not be what is agreed to.
 *
 * <p>Android tells of a window over the finger (from 2.3), and from 10 on of one that is elsewhere over the dialog.
 */
final class CoveredTouches {
    private static final int COVERED = MotionEvent.FLAG_WINDOW_IS_OBSCURED | MotionEvent.FLAG_WINDOW_IS_PARTIALLY_OBSCURED;

    private CoveredTouches() {}

    /** Keeps them from the button that agrees; the dialog stays, and the reason is shown. It has to be shown already. */
    static void refuse(AlertDialog dialog) {
        Button agree = dialog.getButton(AlertDialog.BUTTON_POSITIVE);
        agree.setOnTouchListener(CoveredTouches::isRefused);
    }

    private static boolean isRefused(View view, MotionEvent event) {
        boolean isCovered = (event.getFlags() & COVERED) != 0;
        if (isCovered && event.getActionMasked() == MotionEvent.ACTION_UP) {
            Toast.makeText(view.getContext(), R.string.covered, Toast.LENGTH_LONG).show();
        }
        return isCovered;
    }
}
