import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.Map;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/**
 * Kafka's own message classes, asked line by line on standard input, each line answered by one on standard output:
 *
 *   versions NAME          ->  LOW HIGH, or nothing when this Kafka has no such message
 *   bytes NAME VERSION HEX ->  the bytes that Kafka's class writes after it read those, in hex; `left N` before it when
 *                              N bytes were not read; `refused WHY` when it cannot read them,
 *                              `unwritable WHY` when it cannot write again what it read
 *   text NAME VERSION HEX  ->  the message as Kafka prints it
 */
public final class Classes {
    private final Map<String, String> files = new HashMap<>();
    private final Map<String, Constructor<?>> readers = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        Classes classes = new Classes();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(classes.answer(line.split(" ", -1)));
            out.flush();
        }
    }

    private Classes() throws Exception {
        for (String part : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (part.endsWith(".jar") && new File(part).getName().startsWith("kafka-")) {
                list(part);
            }
        }
    }

    /** Notes every class that may be a message, by its short name. */
    private void list(String path) throws Exception {
        try (JarFile jar = new JarFile(path)) {
            for (Enumeration<JarEntry> entries = jar.entries(); entries.hasMoreElements();) {
                String name = entries.nextElement().getName();
                boolean generated = name.contains("/generated/") || name.contains("/common/message/") || name.contains("/common/metadata/");
                if (generated && name.endsWith(".class") && !name.contains("$")) {
                    String full = name.substring(0, name.length() - ".class".length()).replace('/', '.');
                    files.put(full.substring(full.lastIndexOf('.') + 1), full);
                }
            }
        }
    }

    private String answer(String[] words) throws Exception {
        Constructor<?> reader = reader(words[1]);
        if (words[0].equals("versions")) {
            if (reader == null) {
                return "";
            }
            Message empty = (Message) reader.getDeclaringClass().getDeclaredConstructor().newInstance();
            return empty.lowestSupportedVersion() + " " + empty.highestSupportedVersion();
        }
        short version = Short.parseShort(words[2]);
        ByteBufferAccessor bytes = new ByteBufferAccessor(ByteBuffer.wrap(fromHex(words[3])));
        Message message;
        try {
            message = (Message) reader.newInstance(bytes, version);
        } catch (InvocationTargetException error) {
            return "refused " + error.getCause().toString().replace('\n', ' ');
        }
        if (words[0].equals("text")) {
            return message.toString().replace('\n', ' ');
        }
        int left = bytes.remaining();
        try {
            return (left > 0 ? "left " + left + " " : "") + hex(write(message, version));
        } catch (RuntimeException error) {
            return "unwritable " + error.toString().replace('\n', ' ');
        }
    }

    private Constructor<?> reader(String name) throws Exception {
        if (!readers.containsKey(name)) {
            String full = files.containsKey(name + "Data") ? files.get(name + "Data") : files.get(name);
            readers.put(name, full == null ? null : Class.forName(full).getConstructor(Readable.class, short.class));
        }
        return readers.get(name);
    }

    private static byte[] write(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(out), cache, version);
        return out.array();
    }

    private static byte[] fromHex(String text) {
        byte[] bytes = new byte[text.length() / 2];
        for (int at = 0; at < bytes.length; at++) {
            bytes[at] = (byte) Integer.parseInt(text.substring(2 * at, 2 * at + 2), 16);
        }
        return bytes;
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(Character.forDigit((one >> 4) & 15, 16)).append(Character.forDigit(one & 15, 16));
        }
        return text.toString();
    }
}
