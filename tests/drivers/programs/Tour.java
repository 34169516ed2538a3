// JDBC: java -cp postgresql.jar Tour.java
import java.nio.charset.StandardCharsets;
import java.sql.*;
import java.util.*;

public class Tour {
    // setString sends a varchar, which is no jsonb and no interval: hence the casts.
    static final String PUBLISH = "select * from pgq.publish("
        + "topic => ?, payload => ?::jsonb, key => ?, body => ?)";
    static final String BATCH = "select * from pgq.publish_batch("
        + "topic => ?, payloads => ?::jsonb[], keys => ?)";
    static final String CONSUME = "select log_offset, key, payload ->> 'text' as text, body"
        + " from pgq.consume(topic => ?, consumer_group => ?)";
    static final String ENQUEUE = "select * from pgq.enqueue("
        + "queue => ?, payload => ?::jsonb, delay => ?::interval)";

    static Connection connection;

    /** Run a query; null goes as a null without a type, byte[] as bytea, UUID as uuid. */
    static List<Map<String, Object>> run(String query, Object... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(query)) {
            for (int i = 0; i < parameters.length; i++) statement.setObject(i + 1, parameters[i]);
            ResultSet rows = statement.executeQuery();
            ResultSetMetaData columns = rows.getMetaData();
            List<Map<String, Object>> found = new ArrayList<>();
            while (rows.next()) {
                Map<String, Object> row = new HashMap<>();
                for (int i = 1; i <= columns.getColumnCount(); i++)
                    row.put(columns.getColumnLabel(i), rows.getObject(i));
                found.add(row);
            }
            return found;
        }
    }

    public static void main(String[] arguments) throws SQLException {
        System.setOut(new java.io.PrintStream(System.out, true, StandardCharsets.UTF_8));
        Properties settings = new Properties();
        settings.setProperty("user", System.getenv("PGUSER"));
        settings.setProperty("prepareThreshold", "0"); // only behind a pooler in transaction mode
        connection = DriverManager.getConnection(System.getenv("JDBC_DATABASE_URL"), settings);

        run("select pgq.create_topic(topic => ?, partitions => ?)", "orders", 1);
        run("select pgq.create_group(topic => ?, consumer_group => ?)", "orders", "billing");
        run("select pgq.create_queue(queue => ?)", "mail");

        String text = "{\"text\": \"Grüße, 東京 🐘\"}";
        var published = run(PUBLISH, "orders", text, "ada", null).get(0);
        System.out.println("published: offset " + published.get("log_offset"));
        Array payloads = connection.createArrayOf("text",
            new String[] {"{\"text\": \"two\"}", "{\"text\": \"three\"}", "{\"text\": \"four\"}"});
        Array keys = connection.createArrayOf("text", new String[] {"ada", null, "bob"});
        for (var row : run(BATCH, "orders", payloads, keys)) // one for each partition
            System.out.println("batch: offsets " + row.get("first_offset")
                + " to " + row.get("last_offset"));
        var bytes = run(PUBLISH, "orders", null, null, new byte[] {0x00, (byte) 0xff, 0x41}).get(0);
        System.out.println("bytes: offset " + bytes.get("log_offset"));

        connection.setAutoCommit(false);
        int seen = run(CONSUME, "orders", "billing").size();
        connection.rollback();
        System.out.println("rolled back: " + seen + " messages");
        var messages = run(CONSUME, "orders", "billing");
        // what is written here happens exactly once for each of these messages
        connection.commit();
        connection.setAutoCommit(true);
        System.out.println("committed: " + messages.size() + " messages");
        for (var each : messages) {
            Object content = each.get("text") != null
                ? each.get("text") : HexFormat.of().formatHex((byte[]) each.get("body"));
            Object key = each.get("key") == null ? "-" : each.get("key");
            System.out.println(each.get("log_offset") + " " + key + " " + content);
        }
        System.out.println("left: " + run(CONSUME, "orders", "billing").size() + " messages");

        run(ENQUEUE, "mail", "{\"to\": \"ada\"}", null);
        run(ENQUEUE, "mail", "{\"to\": \"bob\"}", "2 hours");
        var job = run("select job_id, lease_token, attempt, payload ->> 'to' as addressee"
            + " from pgq.claim_job(queue => ?)", "mail").get(0);
        System.out.println("claimed: " + job.get("addressee") + ", attempt " + job.get("attempt"));
        for (String name : List.of("ack", "stale ack")) {
            var done = run("select pgq.ack(?, ?)", job.get("job_id"), job.get("lease_token"));
            System.out.println(name + ": " + ((Boolean) done.get(0).get("ack") ? "true" : "false"));
        }
        try {
            run(PUBLISH, "nowhere", "{}", null, null);
        } catch (SQLException error) {
            if (!"MQ001".equals(error.getSQLState())) throw error;
            System.out.println("unknown topic: " + error.getSQLState());
        }
    }
}
