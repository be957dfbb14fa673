// The Java kernel (see kernels/PROTOCOL.md), on the jshell that every JDK since 9 has. Run by the source launcher.
//
// Cells run in this very process ("local" execution): one JVM instead of two. A thread of its own reads the control
// socket, so that an interrupt is noticed while a cell runs.

import java.io.DataInputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.UnresolvedReferenceException;

public class Kernel {
    static final int CONTROL_FD = 3;
    static final int MAX_FRAME = 16 << 20;
    static final int MAX_TEXT = 1 << 20;
    static final String[] IMPORTS = {"java.io.*", "java.math.*", "java.net.*", "java.nio.file.*", "java.time.*",
        "java.util.*", "java.util.concurrent.*", "java.util.function.*", "java.util.regex.*", "java.util.stream.*"};

    static DataInputStream in;
    static FileOutputStream out;
    static JShell shell;
    static volatile boolean running, interrupted;
    static int count;

    public static void main(String[] args) throws Exception {
        FileDescriptor control = descriptor(CONTROL_FD);
        in = new DataInputStream(new FileInputStream(control));
        out = new FileOutputStream(control);
        ignoreSigint();
        // no buffer in between: what is printed leaves at once
        System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8"));
        System.setErr(new PrintStream(new FileOutputStream(FileDescriptor.err), true, "UTF-8"));
        shell = JShell.builder().executionEngine("local").out(System.out).err(System.err).build();
        for (String path : (System.getenv("CLASSPATH") == null ? "" : System.getenv("CLASSPATH")).split(":")) {
            if (!path.isEmpty()) shell.addToClasspath(path);
        }
        for (String name : IMPORTS) shell.eval("import " + name + ";");
        warmUp();
        BlockingQueue<String> cells = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(cells), "control");
        reader.setDaemon(true);
        reader.start();
        send("{\"op\":\"ready\",\"language\":\"java\",\"version\":" + quote(System.getProperty("java.version")) + "}");
        for (;;) {
            String cell = cells.take();
            count++;
            try {
                run(cell);
            } catch (Throwable e) { // the compiler itself may run out of memory or stack
                fail(e.getClass().getSimpleName(), String.valueOf(e.getMessage()), List.of(e.toString()));
            }
            System.out.flush();
            System.err.flush();
            running = false;
            send("{\"op\":\"done\",\"count\":" + count + "}");
        }
    }

    /** What the first cell would otherwise wait for: the compiler's classes. */
    static void warmUp() {
        shell.sourceCodeAnalysis().analyzeCompletion("1 + 1");
        for (SnippetEvent event : shell.eval("1 + 1")) shell.drop(event.snippet());
    }

    // ---- the control socket ----

    static FileDescriptor descriptor(int number) throws Exception {
        FileDescriptor fd = new FileDescriptor();
        Field field = FileDescriptor.class.getDeclaredField("fd");
        field.setAccessible(true); // see --add-opens in the command line
        field.setInt(fd, number);
        return fd;
    }

    // The signal that comes with an interrupt would end the JVM. By reflection: the compiler warns of this class.
    static void ignoreSigint() {
        try {
            Class<?> signal = Class.forName("sun.misc.Signal"), handler = Class.forName("sun.misc.SignalHandler");
            Object nothing = Proxy.newProxyInstance(Kernel.class.getClassLoader(), new Class<?>[] {handler}, (p, m, a) -> null);
            signal.getMethod("handle", signal, handler).invoke(null, signal.getConstructor(String.class).newInstance("INT"), nothing);
        } catch (ReflectiveOperationException e) {
            System.err.println("interrupts will end this kernel: " + e);
        }
    }

    static void read(BlockingQueue<String> cells) {
        try {
            for (;;) {
                int length = in.readInt();
                if (length < 0 || length > MAX_FRAME) break;
                byte[] body = new byte[length];
                in.readFully(body);
                String frame = new String(body, StandardCharsets.UTF_8), op = field(frame, "op");
                if ("exit".equals(op)) break;
                if ("run".equals(op)) {
                    interrupted = false;
                    running = true;
                    cells.add(field(frame, "code"));
                }
                if ("interrupt".equals(op) && running && !interrupted) {
                    interrupted = true;
                    Thread stopper = new Thread(Kernel::stop, "stop");
                    stopper.setDaemon(true);
                    stopper.start();
                }
            }
        } catch (IOException e) {
            // execd has closed it
        }
        Runtime.getRuntime().halt(0);
    }

    /** A stop counts for what runs at that moment, which may be the compiler: so until it has been heard. */
    static void stop() {
        try {
            while (running && interrupted) {
                shell.stop();
                Thread.sleep(50);
            }
        } catch (InterruptedException e) {
            // nobody does that
        }
    }

    static synchronized void send(String json) {
        byte[] body = json.getBytes(StandardCharsets.UTF_8);
        int n = body.length;
        byte[] frame = new byte[4 + n];
        frame[0] = (byte) (n >> 24);
        frame[1] = (byte) (n >> 16);
        frame[2] = (byte) (n >> 8);
        frame[3] = (byte) n;
        System.arraycopy(body, 0, frame, 4, n);
        try {
            out.write(frame);
        } catch (IOException e) {
            Runtime.getRuntime().halt(0);
        }
    }

    // ---- JSON, as far as frames need it ----

    static String quote(String s) {
        StringBuilder b = new StringBuilder("\"");
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            if (c == '"' || c == '\\') b.append('\\').append(c);
            else if (c < 0x20 || Character.isSurrogate(c)) b.append(String.format("\\u%04x", (int) c));
            else b.append(c);
        }
        return b.append('"').toString();
    }

    /** The string value of a key of a flat object, whose other values are strings as well. */
    static String field(String json, String key) {
        int[] at = {1};
        while (at[0] < json.length() && json.charAt(at[0]) != '}') {
            String name = string(json, at), value;
            at[0]++; // the colon
            value = string(json, at);
            if (name.equals(key)) return value;
            if (at[0] < json.length() && json.charAt(at[0]) == ',') at[0]++;
        }
        return null;
    }

    static String string(String json, int[] at) {
        StringBuilder b = new StringBuilder();
        int i = json.indexOf('"', at[0]) + 1;
        for (; json.charAt(i) != '"'; i++) {
            char c = json.charAt(i);
            if (c != '\\') {
                b.append(c);
                continue;
            }
            c = json.charAt(++i);
            int known = "bfnrt".indexOf(c);
            if (c == 'u') {
                b.append((char) Integer.parseInt(json.substring(i + 1, i + 5), 16));
                i += 4;
            } else {
                b.append(known >= 0 ? "\b\f\n\r\t".charAt(known) : c);
            }
        }
        at[0] = i + 1;
        return b.toString();
    }

    // ---- cells ----

    static void run(String cell) {
        SourceCodeAnalysis analysis = shell.sourceCodeAnalysis();
        String rest = cell, value = null;
        while (!rest.isBlank()) {
            if (interrupted) {
                fail("KeyboardInterrupt", "interrupted", List.of("interrupted"));
                return;
            }
            SourceCodeAnalysis.CompletionInfo part = analysis.analyzeCompletion(rest);
            String source = part.source() != null ? part.source() : rest;
            rest = part.source() != null ? part.remaining() : "";
            value = null;
            for (SnippetEvent event : shell.eval(source)) {
                if (event.causeSnippet() != null) continue; // another snippet that depends on this one
                if (interrupted) {
                    fail("KeyboardInterrupt", "interrupted", List.of("interrupted"));
                    return;
                }
                if (event.exception() != null) {
                    failed(event.exception());
                    return;
                }
                if (event.status() == Snippet.Status.REJECTED) {
                    rejected(event.snippet());
                    return;
                }
                if (isValue(event.snippet())) value = event.value();
            }
        }
        if (value != null && !value.isEmpty()) {
            String text = value.length() <= MAX_TEXT ? value
                : value.substring(0, MAX_TEXT) + "\n... (cut: " + MAX_TEXT + " of " + value.length() + " characters shown)";
            send("{\"op\":\"result\",\"count\":" + count + ",\"data\":{\"text/plain\":" + quote(text) + "}}");
        }
    }

    static boolean isValue(Snippet snippet) {
        return snippet.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND
            || (snippet.kind() == Snippet.Kind.EXPRESSION && snippet.subKind() != Snippet.SubKind.ASSIGNMENT_SUBKIND);
    }

    static void failed(JShellException e) {
        List<String> lines = new ArrayList<>();
        String words = String.valueOf(e.getMessage());
        if (e instanceof EvalException) {
            words = ((EvalException) e).getExceptionClassName() + (e.getMessage() == null ? "" : ": " + e.getMessage());
        } else if (e instanceof UnresolvedReferenceException) {
            Snippet snippet = ((UnresolvedReferenceException) e).getSnippet();
            words = "it refers to something that is not defined: " + snippet.source().strip();
        }
        lines.add(words);
        for (StackTraceElement frame : e.getStackTrace()) {
            if (lines.size() > 200) break;
            lines.add("    at " + (frame.getClassName().isEmpty() ? "" : frame.getClassName() + ".") + frame.getMethodName()
                + " (" + frame.getFileName() + ":" + frame.getLineNumber() + ")");
        }
        fail(e.getClass().getSimpleName(), words, lines);
    }

    static void rejected(Snippet snippet) {
        List<String> lines = new ArrayList<>();
        String first = null, source = snippet.source();
        for (Diag diag : (Iterable<Diag>) shell.diagnostics(snippet)::iterator) {
            String message = diag.getMessage(Locale.ENGLISH);
            int from = (int) Math.max(0, Math.min(diag.getStartPosition(), source.length()));
            int to = (int) Math.max(from, Math.min(diag.getEndPosition(), source.length()));
            if (first == null) first = message;
            lines.addAll(Arrays.asList(message.split("\n")));
            lines.add("  at: " + source.substring(from, to).strip());
        }
        fail("CompilationException", first == null ? "this is not Java" : first, lines);
    }

    static void fail(String name, String value, List<String> lines) {
        StringBuilder b = new StringBuilder("{\"op\":\"error\",\"ename\":").append(quote(name)).append(",\"evalue\":")
            .append(quote(value.substring(0, Math.min(value.length(), 65536)))).append(",\"traceback\":[");
        for (int i = 0; i < lines.size(); i++) b.append(i > 0 ? "," : "").append(quote(lines.get(i)));
        System.out.flush();
        System.err.flush();
        send(b.append("]}").toString());
    }
}
