package org.flashmob.app;

import android.content.BroadcastReceiver;
import android.content.Context;
import android.content.Intent;
import android.content.IntentFilter;
import android.net.ConnectivityManager;
import android.net.Network;
import android.net.NetworkCapabilities;
import android.net.NetworkRequest;
import android.os.BatteryManager;
import android.os.Build;
import android.os.Handler;
import android.os.Looper;
import android.os.PowerManager;

/** Asks Android for {@link DeviceState}, and tells when something of it changes. On the main thread; nothing of it blocks. */
final class DeviceWatcher {
    interface Listener {
        void onDevice(DeviceState state);
    }

    private final Context context;
    private final Listener listener;
    private final Handler main = new Handler(Looper.getMainLooper());
    private final BroadcastReceiver receiver = new BroadcastReceiver() {
        @Override
        public void onReceive(Context ignored, Intent intent) {
            tell();
        }
    };
    private final ConnectivityManager.NetworkCallback networks = new ConnectivityManager.NetworkCallback() {
        @Override
        public void onAvailable(Network network) {
            main.post(DeviceWatcher.this::tell);
        }

        @Override
        public void onLost(Network network) {
            main.post(DeviceWatcher.this::tell);
        }
    };
    private boolean watching;
    private boolean hearsNetworks;

    DeviceWatcher(Context context, Listener listener) {
        this.context = context;
        this.listener = listener;
    }

    void start() {
        IntentFilter changes = new IntentFilter(Intent.ACTION_BATTERY_CHANGED);
        changes.addAction(Intent.ACTION_SCREEN_ON);
        changes.addAction(Intent.ACTION_SCREEN_OFF);
        changes.addAction(PowerManager.ACTION_POWER_SAVE_MODE_CHANGED);
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.M) {
            changes.addAction(PowerManager.ACTION_DEVICE_IDLE_MODE_CHANGED);
        }
        context.registerReceiver(receiver, changes);
        try {
            connectivity(context).registerNetworkCallback(
                    new NetworkRequest.Builder().removeCapability(NetworkCapabilities.NET_CAPABILITY_INTERNET).build(), networks);
            hearsNetworks = true;
        } catch (SecurityException e) {
            // Some builds of Android 11 refuse it now and then, by mistake; the network is then read with the next change of anything else.
            hearsNetworks = false;
        }
        watching = true;
        tell();
    }

    void stop() {
        if (watching) {
            watching = false;
            context.unregisterReceiver(receiver);
            if (hearsNetworks) {
                connectivity(context).unregisterNetworkCallback(networks);
            }
        }
    }

    private void tell() {
        if (watching) {
            listener.onDevice(read(context));
        }
    }

    static DeviceState read(Context context) {
        DeviceState state = new DeviceState();
        Intent battery = context.registerReceiver(null, new IntentFilter(Intent.ACTION_BATTERY_CHANGED));
        if (battery != null) {
            readBattery(state, battery);
        }
        PowerManager power = (PowerManager) context.getSystemService(Context.POWER_SERVICE);
        state.screenOn = power.isInteractive();
        state.powerSave = power.isPowerSaveMode();
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.M) {
            state.doze = power.isDeviceIdleMode();
            state.batteryExempt = power.isIgnoringBatteryOptimizations(context.getPackageName());
        } else {
            // There is no Doze before Android 6, and so nothing to be exempt from.
            state.batteryExempt = true;
        }
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q) {
            state.thermalStatus = power.getCurrentThermalStatus();
        }
        state.network = network(connectivity(context));
        return state;
    }

    private static void readBattery(DeviceState state, Intent battery) {
        int level = battery.getIntExtra(BatteryManager.EXTRA_LEVEL, -1);
        int scale = battery.getIntExtra(BatteryManager.EXTRA_SCALE, -1);
        boolean present = battery.getBooleanExtra(BatteryManager.EXTRA_PRESENT, true);
        if (present && level >= 0 && scale > 0) {
            state.batteryPercent = level * 100 / scale;
        }
        // A full battery on a charger counts as charging: what matters is that there is power.
        state.charging = battery.getIntExtra(BatteryManager.EXTRA_PLUGGED, 0) != 0;
        int tenths = battery.getIntExtra(BatteryManager.EXTRA_TEMPERATURE, Integer.MIN_VALUE);
        if (tenths != Integer.MIN_VALUE) {
            state.batteryCelsius = tenths / 10.0;
        }
    }

    /**
     * The best network that there is, and not the active one: on a Wi-Fi without Internet, which a cluster may well have of its own, Android
     * keeps cellular as the active one.
     */
    private static String network(ConnectivityManager manager) {
        boolean ethernet = false;
        boolean wifi = false;
        boolean cellular = false;
        for (Network network : manager.getAllNetworks()) {
            NetworkCapabilities capabilities = manager.getNetworkCapabilities(network);
            if (capabilities != null) {
                ethernet |= capabilities.hasTransport(NetworkCapabilities.TRANSPORT_ETHERNET);
                wifi |= capabilities.hasTransport(NetworkCapabilities.TRANSPORT_WIFI);
                cellular |= capabilities.hasTransport(NetworkCapabilities.TRANSPORT_CELLULAR);
            }
        }
        return ethernet ? DeviceState.ETHERNET : wifi ? DeviceState.WIFI : cellular ? DeviceState.CELLULAR : DeviceState.NONE;
    }

    private static ConnectivityManager connectivity(Context context) {
        return (ConnectivityManager) context.getSystemService(Context.CONNECTIVITY_SERVICE);
    }
}
