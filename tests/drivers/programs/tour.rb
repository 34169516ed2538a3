# Ruby with pg
require "json"
require "pg"

connection = PG.connect(ENV.fetch("DATABASE_URL"))
# Without this map every value is a string, and 'f' is true: a stale ack would look successful.
connection.type_map_for_results = PG::BasicTypeMapForResults.new(connection)

# Strings, and casts where the type is another one; nil takes the default of an argument.
PUBLISH = "select * from pgq.publish(topic => $1, payload => $2::jsonb, key => $3, body => $4)"
CONSUME = "select * from pgq.consume(topic => $1, consumer_group => $2)"
ENQUEUE = "select * from pgq.enqueue(queue => $1, payload => $2::jsonb, delay => $3::interval)"
GROUP = %w[orders billing].freeze

connection.exec_params("select pgq.create_topic(topic => $1, partitions => $2)", ["orders", 1])
connection.exec_params("select pgq.create_group(topic => $1, consumer_group => $2)", GROUP)
connection.exec_params("select pgq.create_queue(queue => $1)", ["mail"])

text = JSON.generate({ text: "Grüße, 東京 🐘" })
published = connection.exec_params(PUBLISH, ["orders", text, "ada", nil]).first
puts "published: offset #{published["log_offset"]}"

# An array needs an encoder; it makes nil a null.
array = PG::TextEncoder::Array.new
payloads = %w[two three four].map { |each| JSON.generate({ text: each }) }
batch = connection.exec_params(
  "select * from pgq.publish_batch(topic => $1, payloads => $2::jsonb[], keys => $3::text[])",
  ["orders", array.encode(payloads), array.encode(["ada", nil, "bob"])]
)
batch.each do |row| # one for each partition
  puts "batch: offsets #{row["first_offset"]} to #{row["last_offset"]}"
end

# Bytes go in format 1; a plain string with a NUL is refused.
body = { value: "\x00\xFFA".b, format: 1 }
bytes = connection.exec_params(PUBLISH, ["orders", nil, nil, body]).first
puts "bytes: offset #{bytes["log_offset"]}"

class ChangedMyMind < StandardError; end

seen = 0
begin
  connection.transaction do
    seen = connection.exec_params(CONSUME, GROUP).ntuples
    raise ChangedMyMind
  end
rescue ChangedMyMind
  puts "rolled back: #{seen} messages"
end

messages = connection.transaction do
  # what is written here happens exactly once for each of these messages
  connection.exec_params(CONSUME, GROUP).to_a
end
puts "committed: #{messages.length} messages"
messages.each do |each|
  payload = each["payload"] # parsed already, by the map above
  content = payload ? payload["text"] : each["body"].unpack1("H*")
  puts "#{each["log_offset"]} #{each["key"] || "-"} #{content}"
end
puts "left: #{connection.exec_params(CONSUME, GROUP).ntuples} messages"

connection.exec_params(ENQUEUE, ["mail", JSON.generate({ to: "ada" }), nil])
connection.exec_params(ENQUEUE, ["mail", JSON.generate({ to: "bob" }), "2 hours"])
job = connection.exec_params("select * from pgq.claim_job(queue => $1)", ["mail"]).first
puts "claimed: #{job["payload"]["to"]}, attempt #{job["attempt"]}"
["ack", "stale ack"].each do |name|
  lease = [job["job_id"], job["lease_token"]]
  done = connection.exec_params("select pgq.ack($1, $2)", lease).getvalue(0, 0)
  puts "#{name}: #{done ? "true" : "false"}"
end

begin
  connection.exec_params(PUBLISH, ["nowhere", "{}", nil, nil])
rescue PG::Error => error
  code = error.result&.error_field(PG::PG_DIAG_SQLSTATE)
  raise unless code == "MQ001"

  puts "unknown topic: #{code}"
end
