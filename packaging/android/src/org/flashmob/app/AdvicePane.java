package org.flashmob.app;

import android.Manifest;
import android.app.Activity;
import android.content.ActivityNotFoundException;
import android.content.Intent;
import android.content.pm.PackageManager;
import android.net.Uri;
import android.os.Build;
import android.provider.Settings;
import android.view.View;
import android.widget.Button;
import android.widget.ImageView;
import android.widget.Switch;
import android.widget.TextView;

/** The card with what a device needs to go on serving: power, no battery optimisation, Wi-Fi, and that its notification may be seen. */
final class AdvicePane {
    private final Activity activity;
    private final Switch pause;
    private final Switch wifiOnly;

    AdvicePane(Activity activity, Runnable changed) {
        this.activity = activity;
        Preferences preferences = new Preferences(activity);
        pause = activity.findViewById(R.id.pause_on_low_battery);
        wifiOnly = activity.findViewById(R.id.wifi_only);
        pause.setText(activity.getString(R.string.pause_on_low_battery, DeviceState.LOW_BATTERY_PERCENT));
        pause.setChecked(preferences.isPausedOnLowBattery());
        wifiOnly.setChecked(preferences.isWifiOnly());
        pause.setOnCheckedChangeListener((view, checked) -> {
            preferences.setPausedOnLowBattery(checked);
            changed.run();
        });
        wifiOnly.setOnCheckedChangeListener((view, checked) -> {
            preferences.setWifiOnly(checked);
            changed.run();
        });
        button(R.id.advice_exempt).setOnClickListener(view -> askForExemption());
        button(R.id.advice_notifications).setOnClickListener(view -> openNotificationSettings());
    }

    void show(DeviceState state) {
        if (state.charging || state.batteryPercent == DeviceState.UNKNOWN) {
            row(R.id.advice_power, true, activity.getString(R.string.advice_power_good), "");
        } else {
            row(R.id.advice_power, false, activity.getString(R.string.advice_power_bad, state.batteryPercent),
                    activity.getString(R.string.advice_power_why));
        }
        row(R.id.advice_exempt, state.batteryExempt,
                activity.getString(state.batteryExempt ? R.string.advice_exempt_good : R.string.advice_exempt_bad),
                state.batteryExempt ? "" : activity.getString(R.string.advice_exempt_why));
        button(R.id.advice_exempt).setVisibility(state.batteryExempt ? View.GONE : View.VISIBLE);
        boolean local = state.isOnLocalNetwork();
        row(R.id.advice_network, local,
                activity.getString(!local ? R.string.advice_network_bad
                        : state.network.equals(DeviceState.WIFI) ? R.string.advice_network_wifi : R.string.advice_network_ethernet),
                local ? "" : activity.getString(R.string.advice_network_why));
        boolean notifies = mayNotify(activity);
        row(R.id.advice_notifications, notifies, activity.getString(R.string.advice_notifications_bad),
                activity.getString(R.string.advice_notifications_why));
        button(R.id.advice_notifications).setVisibility(notifies ? View.GONE : View.VISIBLE);
        // Before Android 13 there is nothing to allow, and where it is allowed nothing to say.
        activity.findViewById(R.id.advice_notifications).setVisibility(notifies ? View.GONE : View.VISIBLE);
    }

    static boolean mayNotify(Activity activity) {
        return Build.VERSION.SDK_INT < Build.VERSION_CODES.TIRAMISU
                || activity.checkSelfPermission(Manifest.permission.POST_NOTIFICATIONS) == PackageManager.PERMISSION_GRANTED;
    }

    /** The system's own question; where a maker removed it, the list of apps in the settings. */
    private void askForExemption() {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.M) {
            return;
        }
        try {
            activity.startActivity(new Intent(Settings.ACTION_REQUEST_IGNORE_BATTERY_OPTIMIZATIONS,
                    Uri.parse("package:" + activity.getPackageName())));
        } catch (ActivityNotFoundException e) {
            openBatterySettings();
        }
    }

    /** Not the system's question, which it does not show again to who denied it. */
    private void openNotificationSettings() {
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.O) {
            activity.startActivity(new Intent(Settings.ACTION_APP_NOTIFICATION_SETTINGS)
                    .putExtra(Settings.EXTRA_APP_PACKAGE, activity.getPackageName()));
        }
    }

    private void openBatterySettings() {
        try {
            activity.startActivity(new Intent(Settings.ACTION_IGNORE_BATTERY_OPTIMIZATION_SETTINGS));
        } catch (ActivityNotFoundException e) {
            activity.startActivity(new Intent(Settings.ACTION_SETTINGS));
        }
    }

    private Button button(int row) {
        return activity.findViewById(row).findViewById(R.id.advice_button);
    }

    private void row(int id, boolean good, String title, String why) {
        View row = activity.findViewById(id);
        ImageView icon = row.findViewById(R.id.advice_icon);
        icon.setImageResource(good ? R.drawable.ic_check : R.drawable.ic_warning);
        icon.setColorFilter(activity.getResources().getColor(good ? R.color.primary : R.color.attention));
        icon.setContentDescription(activity.getString(good ? R.string.advice_good : R.string.advice_bad));
        ((TextView) row.findViewById(R.id.advice_title)).setText(title);
        TextView reason = row.findViewById(R.id.advice_why);
        reason.setText(why);
        reason.setVisibility(why.isEmpty() ? View.GONE : View.VISIBLE);
    }
}
