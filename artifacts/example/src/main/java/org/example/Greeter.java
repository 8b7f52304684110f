package org.example;

import java.io.FileInputStream;
import java.io.IOException;
import java.util.Properties;

/** Greets whoever config/application.properties names, and counts the hands that GUESTS and HOSTS shake. */
public final class Greeter {
    private Greeter() {
    }

    public static void main(String[] arguments) throws IOException {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream("config/application.properties")) {
            properties.load(file);
        }
        System.out.println("Hello, " + properties.getProperty("greeting.name") + "!");
        long guests = Long.parseLong(arguments[0]);
        long hosts = Long.parseLong(arguments[1]);
        System.out.println("Guests and hosts shake " + guests * hosts + " hands.");
    }
}
