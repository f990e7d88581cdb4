package org.flashmob.app;

import static org.junit.Assert.fail;
import static org.robolectric.Shadows.shadowOf;

import android.content.Context;
import android.content.Intent;
import android.net.ConnectivityManager;
import android.net.Network;
import android.net.NetworkCapabilities;
import android.os.BatteryManager;
import android.os.Looper;
import java.util.concurrent.Callable;
import org.robolectric.shadows.ShadowNetworkCapabilities;

/** Robolectric's device, set to what a test needs; and waiting until something has come about. */
final class Device {
    /** Much more than it takes: a busy machine must not fail a test. */
    private static final long PATIENCE_MS = 60_000;

    private Device() {}

    static void battery(Context context, int percent, boolean plugged) {
        Intent battery = new Intent(Intent.ACTION_BATTERY_CHANGED)
                .putExtra(BatteryManager.EXTRA_PRESENT, true)
                .putExtra(BatteryManager.EXTRA_LEVEL, percent * 2)
                .putExtra(BatteryManager.EXTRA_SCALE, 200)
                .putExtra(BatteryManager.EXTRA_PLUGGED, plugged ? BatteryManager.BATTERY_PLUGGED_USB : 0)
                .putExtra(BatteryManager.EXTRA_TEMPERATURE, 315);
        context.sendStickyBroadcast(battery);
        shadowOf(Looper.getMainLooper()).idle();
    }

    /** All networks become of this kind, and whoever listens hears of it. */
    static void network(Context context, int transport) {
        ConnectivityManager manager = (ConnectivityManager) context.getSystemService(Context.CONNECTIVITY_SERVICE);
        for (Network network : manager.getAllNetworks()) {
            NetworkCapabilities capabilities = ShadowNetworkCapabilities.newInstance();
            shadowOf(capabilities).addTransportType(transport);
            shadowOf(manager).setNetworkCapabilities(network, capabilities);
            for (ConnectivityManager.NetworkCallback callback : shadowOf(manager).getNetworkCallbacks()) {
                callback.onAvailable(network);
            }
        }
        shadowOf(Looper.getMainLooper()).idle();
    }

    static void await(String what, Callable<Boolean> condition) throws Exception {
        long endNs = System.nanoTime() + PATIENCE_MS * 1_000_000;
        while (!condition.call()) {
            if (System.nanoTime() > endNs) {
                fail("never came about: " + what + "; the state is " + NodeMonitor.get().latest().phase + ", the log "
                        + NodeMonitor.get().latest().log);
            }
            Thread.sleep(5);
            shadowOf(Looper.getMainLooper()).idle();
        }
    }

    static void awaitPhase(Supervisor.Phase phase) throws Exception {
        await("phase " + phase, () -> NodeMonitor.get().latest().phase == phase);
    }
}
