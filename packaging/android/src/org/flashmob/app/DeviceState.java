package org.flashmob.app;

import org.json.JSONException;
import org.json.JSONObject;

/** What this device says of itself, as the node reads it from {@code --device-state}. Values only; {@link DeviceWatcher} asks the system. */
final class DeviceState {
    static final String WIFI = "wifi";
    static final String ETHERNET = "ethernet";
    static final String CELLULAR = "cellular";
    static final String NONE = "none";
    static final int UNKNOWN = -1;

    /** Below it, without a charger, serving pauses; a warm restart needs more, so that it does not go on and off. */
    static final int LOW_BATTERY_PERCENT = 15;
    static final int LOW_BATTERY_OVER_PERCENT = 20;

    /** {@link #UNKNOWN} where there is no battery. */
    int batteryPercent = UNKNOWN;
    boolean charging;
    /** NaN where the device does not say. */
    double batteryCelsius = Double.NaN;
    boolean screenOn;
    /** Android's 0 none to 6 shutdown; {@link #UNKNOWN} before Android 10. */
    int thermalStatus = UNKNOWN;
    boolean powerSave;
    boolean doze;
    boolean batteryExempt;
    String network = NONE;

    boolean isBatteryLow(boolean wasLow) {
        int limit = wasLow ? LOW_BATTERY_OVER_PERCENT : LOW_BATTERY_PERCENT;
        return batteryPercent != UNKNOWN && !charging && batteryPercent < limit;
    }

    boolean isOnLocalNetwork() {
        return network.equals(WIFI) || network.equals(ETHERNET);
    }

    /** The form of the contract with the node; what is not known is left out. */
    String toJson(long unixMs) {
        try {
            JSONObject json = new JSONObject();
            json.put("written_at_unix_ms", unixMs);
            if (batteryPercent != UNKNOWN) {
                json.put("battery_percent", batteryPercent);
                json.put("charging", charging);
            }
            if (!Double.isNaN(batteryCelsius)) {
                json.put("battery_celsius", batteryCelsius);
            }
            json.put("screen_on", screenOn);
            if (thermalStatus != UNKNOWN) {
                json.put("thermal_status", thermalStatus);
            }
            json.put("power_save", powerSave);
            json.put("doze", doze);
            json.put("battery_exempt", batteryExempt);
            json.put("network", network);
            return json.toString();
        } catch (JSONException e) {
            // Only numbers that are not finite are refused, and none of those is put.
            throw new IllegalStateException(e);
        }
    }
}
