package org.flashmob.app;

import android.os.Handler;
import android.os.Looper;

/** Whether the device may serve now. A network that goes may be one access point handing over to another, so it is given some time. */
final class Holds {
    static final long NETWORK_PATIENCE_MS = 30_000;

    private final Preferences preferences;
    private final Runnable again;
    private final Handler main = new Handler(Looper.getMainLooper());
    private boolean wasLow;
    private boolean seen;
    private boolean offNetwork;
    private boolean patienceOver;

    /** {@code again} is called when patience is over and the question is to be asked anew. */
    Holds(Preferences preferences, Runnable again) {
        this.preferences = preferences;
        this.again = again;
    }

    Supervisor.Hold of(DeviceState state) {
        wasLow = state.isBatteryLow(wasLow);
        boolean away = preferences.isWifiOnly() && !state.isOnLocalNetwork();
        if (away && !offNetwork) {
            // At the start there is nothing to hand over from.
            patienceOver = !seen;
            if (seen) {
                main.postDelayed(this::endPatience, NETWORK_PATIENCE_MS);
            }
        } else if (!away) {
            main.removeCallbacksAndMessages(null);
            patienceOver = false;
        }
        offNetwork = away;
        seen = true;
        if (wasLow && preferences.isPausedOnLowBattery()) {
            return Supervisor.Hold.LOW_BATTERY;
        }
        return away && patienceOver ? Supervisor.Hold.NO_WIFI : null;
    }

    void close() {
        main.removeCallbacksAndMessages(null);
    }

    private void endPatience() {
        patienceOver = true;
        again.run();
    }
}
