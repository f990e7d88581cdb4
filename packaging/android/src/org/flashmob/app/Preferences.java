package org.flashmob.app;

import android.content.Context;
import android.content.SharedPreferences;
import android.os.Build;

/** What was chosen on the screen, and what has to outlive the process and a reboot. */
final class Preferences {
    private static final String FILE = "flashmob";
    private final SharedPreferences store;

    Preferences(Context context) {
        store = context.getSharedPreferences(FILE, Context.MODE_PRIVATE);
    }

    /** Whether the node is to run: from start until stop, through reboots. */
    boolean isServingWanted() {
        return store.getBoolean("serving_wanted", false);
    }

    void setServingWanted(boolean wanted) {
        // Not apply(): a device that is switched off now must remember it.
        store.edit().putBoolean("serving_wanted", wanted).commit();
    }

    /** 0 until one is chosen. */
    long sizeBytes() {
        return store.getLong("size_bytes", 0);
    }

    void setSizeBytes(long bytes) {
        store.edit().putLong("size_bytes", bytes).apply();
    }

    String name() {
        return store.getString("name", NodeCommand.plainName(Build.MODEL == null ? "" : Build.MODEL));
    }

    void setName(String name) {
        store.edit().putString("name", name).apply();
    }

    /** HOST:PORT of the gateway to tell of this node; empty for none. */
    String join() {
        return store.getString("join", "");
    }

    void setJoin(String join) {
        store.edit().putString("join", join).apply();
    }

    /** Whether the owner has chosen a cluster with keys: from then on the node never serves without. */
    boolean areKeysWanted() {
        return store.getBoolean("keys_wanted", false);
    }

    void setKeysWanted(boolean wanted) {
        // Not apply(): it must be known to whatever starts the node next.
        store.edit().putBoolean("keys_wanted", wanted).commit();
    }

    boolean isPausedOnLowBattery() {
        return store.getBoolean("pause_on_low_battery", true);
    }

    void setPausedOnLowBattery(boolean paused) {
        store.edit().putBoolean("pause_on_low_battery", paused).apply();
    }

    /** Off for a device that is itself the access point. */
    boolean isWifiOnly() {
        return store.getBoolean("wifi_only", true);
    }

    void setWifiOnly(boolean wifiOnly) {
        store.edit().putBoolean("wifi_only", wifiOnly).apply();
    }
}
