package org.flashmob.app;

import android.content.Context;
import android.net.wifi.WifiManager;
import android.os.Build;
import android.os.PowerManager;

/** What keeps the processor and the radio awake while the node serves, and hears questions sent to all. Held all together or not at all. */
final class Locks {
    private static final String TAG = "flashmob:serving";

    private final PowerManager.WakeLock wake;
    private final WifiManager.WifiLock wifi;
    private final WifiManager.MulticastLock multicast;

    Locks(Context context) {
        PowerManager power = (PowerManager) context.getSystemService(Context.POWER_SERVICE);
        WifiManager manager = (WifiManager) context.getApplicationContext().getSystemService(Context.WIFI_SERVICE);
        wake = power.newWakeLock(PowerManager.PARTIAL_WAKE_LOCK, TAG);
        wake.setReferenceCounted(false);
        // Boards without Wi-Fi have no manager.
        wifi = manager == null ? null : manager.createWifiLock(wifiMode(), TAG);
        multicast = manager == null ? null : manager.createMulticastLock(TAG);
        if (manager != null) {
            wifi.setReferenceCounted(false);
            multicast.setReferenceCounted(false);
        }
    }

    /**
     * HIGH_PERF keeps the radio out of power save with the screen off. Android 14 has turned it into LOW_LATENCY, which helps only
     * while the screen is on and the app in front; asking for the older one there would say what is not so.
     */
    private static int wifiMode() {
        return Build.VERSION.SDK_INT >= Build.VERSION_CODES.UPSIDE_DOWN_CAKE
                ? WifiManager.WIFI_MODE_FULL_LOW_LATENCY
                : WifiManager.WIFI_MODE_FULL_HIGH_PERF;
    }

    void hold(boolean held) {
        if (held == isHeld()) {
            return;
        }
        if (held) {
            // Without a time limit: it is as long as somebody wants the node to serve, and shown in a notification all the while.
            wake.acquire();
        } else {
            wake.release();
        }
        if (wifi != null && held) {
            wifi.acquire();
            multicast.acquire();
        } else if (wifi != null) {
            wifi.release();
            multicast.release();
        }
    }

    boolean isHeld() {
        return wake.isHeld();
    }
}
