package config

import (
	"cmp"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/observe/logs"
)

// Logger says what is logged, and where to.
type Logger struct {
	Enabled bool
	Level   string
	Include []string // nil: not stated
	// Metrics reports whether the counts of the sinks are exported.
	Metrics bool
	Outputs []LogOutput // those that are enabled
}

// LogOutput is where records are written.
type LogOutput struct {
	Name  string
	Type  string // [LogConsole], [LogFile] or [MQ]
	Level string // empty: that of the logger
	JSON  bool
	// Buffer is how many records wait at most; Flush how long they wait for others of a batch.
	Buffer int
	Flush  time.Duration

	Stream string // of a console: stderr, stdout or level

	Path     string // of a file
	Daily    bool
	MaxBytes int64
	MaxFiles int

	Backend     string // of a message queue: kafka or redis
	Brokers     []string
	Topic       string
	Batch       int
	Compression string
}

// The types of outputs.
const (
	LogConsole = "console"
	LogFile    = "file"
	MQ         = "mq"
)

const redisBackend = "redis"

var levelNames = []string{"debug", "info", "warn", "error", "critical"}

// loggerShape is what is said about logs.
func loggerShape() shape {
	buffer := whole(1, 10_000_000)
	return shape{kind: object, fields: []field{
		{name: "enabled", doc: "`false` logs nothing; so does PAWL_DISABLE_LOGS=true in the environment.", def: "true",
			shape: shape{kind: boolean}},
		{name: "level", doc: "The lowest level that is logged.", def: "info", env: "PAWL_LOG_LEVEL", live: true,
			shape: oneOf(levelNames...)},
		{name: "format", doc: "The format of outputs that state none. Files are text and message queues are JSON, always.",
			defDoc: "text; json for mq", env: "PAWL_LOG_FORMAT", shape: oneOf(logs.Text, logs.JSON)},
		{name: "include",
			doc:    "The fixed fields of records besides time, level and message; `seq` numbers the records, `node_id` names the process. Fields with other names are always present.",
			defDoc: "all that a record has; in JSON seq and node_id, too",
			shape:  shape{kind: list, of: &shape{kind: choice, choices: logs.Fields}, noun: "list of names"}},
		{name: "buffer", doc: "The most records that may wait for an output. Further ones are dropped, and counted.",
			def: "10000", shape: buffer},
		{name: "flush_interval", doc: "The longest that records wait for a full batch of a message queue.",
			def: "500ms", shape: span(time.Millisecond, time.Minute)},
		{name: "outputs", doc: "Where records are written. Each output has its own queue and never delays the others.",
			defDoc: "one of type console",
			shape:  shape{kind: list, of: logOutputShape(), noun: "list of outputs"}},
		{name: "prometheus", doc: "The counts of the outputs, in /metrics of `listen`.",
			shape: shape{kind: object, filled: true, fields: []field{
				{name: "enabled", doc: "Export them.", def: "true", shape: shape{kind: boolean}},
				{name: "port", doc: "The port of `listen`, where they are: another one is an error.",
					defDoc: "that of listen", shape: whole(1, 65535)},
				{name: "path", doc: "The path, which is /metrics: another one is an error.", def: "/metrics",
					shape: shape{kind: text, noun: "path", check: checkMetricsPath}},
			}}},
	}}
}

// logOutputShape is what is said about one output.
func logOutputShape() *shape {
	file, mq := []string{LogFile}, []string{MQ}
	return &shape{kind: object, by: "type", fields: []field{
		{name: "type", doc: "The streams of the process, a file, or a message queue.", must: true,
			shape: oneOf(LogConsole, LogFile, MQ)},
		{name: "name", doc: "The label `sink` of its metrics.", defDoc: "the type",
			shape: shape{kind: text, noun: "name", check: checkNode}},
		{name: "enabled", doc: "`false` leaves it out.", def: "true", shape: shape{kind: boolean}},
		{name: "level", doc: "The lowest level that is written to it.", defDoc: "that of logger",
			shape: oneOf(levelNames...)},
		{name: "format", doc: "text or json; a file is text, a message queue JSON.", defDoc: "that of logger",
			shape: oneOf(logs.Text, logs.JSON)},
		{name: "stream",
			doc: "stderr, stdout, or by level: warnings and worse on stderr, the rest on stdout, where the output of programs is, too.",
			def: "stderr", with: []string{LogConsole}, shape: oneOf("stderr", "stdout", "level")},
		{name: "path", doc: "The file; its folder is made.", must: true, with: file,
			shape: shape{kind: text, noun: "path", check: checkFilled}},
		{name: "rotate", doc: "When the next file begins; the one before gets a date after its name.", def: "daily",
			with: file, shape: oneOf("daily", "size")},
		{name: "max_size_mb", doc: "How large a file becomes with `rotate: size`, in MiB.", def: "256", with: file,
			shape: whole(1, 1<<20)},
		{name: "max_files", doc: "How many files are kept besides the current one.", def: "14", with: file,
			shape: whole(1, 10_000)},
		{name: "backend", doc: "The message queue.", must: true, with: mq, shape: oneOf("kafka", redisBackend)},
		{name: "brokers",
			doc:  "The addresses (HOST:PORT) of the brokers, or that of Redis; or one URL as of a store, with user, password and TLS.",
			must: true, with: mq, shape: shape{kind: list, of: &shape{kind: text, noun: nounURL, sensitive: true},
				noun: "list of addresses"}},
		{name: "topic", doc: "The topic of Kafka, or stream of Redis. It is created where it is missing.",
			def: logs.DefaultTopic, with: mq, shape: shape{kind: text, noun: "name", check: checkNode}},
		{name: "buffer", doc: "The most records that may wait for it.", defDoc: "that of logger",
			shape: whole(1, 10_000_000)},
		{name: "batch_size", doc: "How many records are collected before they are sent; also how many an entry of Redis has.",
			def: strconv.Itoa(logs.DefaultBatch), with: mq, shape: whole(1, 10_000)},
		{name: "compression", doc: "How batches are packed.", def: "lz4", with: mq, shape: oneOf("lz4", "none")},
	}}
}

func checkMetricsPath(s string) (why, hint string) {
	if s != "/metrics" {
		return "must be /metrics", "metrics are served there only; leave it out"
	}
	return "", ""
}

// checkLogger finds what does not go together.
func (w *walker) checkLogger(logger, listen *node) {
	if logger == nil || logger.bad {
		return
	}
	if p := logger.at("prometheus"); p != nil && !p.bad {
		text, _ := listen.value.(string)
		_, at, _ := net.SplitHostPort(text)
		if port := p.at("port"); port != nil && !port.bad && at != "" && strconv.Itoa(get[int](p, "port")) != at {
			w.refuse(port, "set listen, and leave this out",
				"metrics are served where listen says, at port %s (got %s)", at, port.shown)
		}
	}
	outputs := logger.at("outputs")
	if outputs == nil {
		return
	}
	names, paths := map[string]*node{}, map[string]*node{}
	for _, o := range outputs.items {
		if !w.checkBy(o) {
			continue
		}
		w.checkLogFormat(o, logger)
		w.checkBrokers(o)
		w.once(o, "name", names, "give it another name", "another output has this name: metrics tell them apart by it")
		w.once(o, "path", paths, "give it a file of its own", "another output writes to this file")
		size := o.at("max_size_mb")
		if size != nil && size.origin != originDefault && get[string](o, "rotate") == "daily" {
			w.refuse(size, "add rotate: size, or leave it out", "goes with rotate: size")
		}
	}
}

// once reports a value that another output has.
func (w *walker) once(o *node, key string, seen map[string]*node, hint, why string) {
	n := o.at(key)
	if n == nil && key == "name" {
		n = o.at("type") // its default
	}
	if n == nil || n.bad {
		return
	}
	value, _ := n.value.(string)
	switch {
	case seen[value] == nil:
		seen[value] = n
	case o.at(key) == nil:
		w.refuseKey(o, "add "+key+": …", why+" (got %s)", quote(n.shown))
	default:
		w.refuse(n, hint, why+" (got %s)", quote(n.shown))
	}
}

// checkLogFormat finds a format that an output cannot have.
func (w *walker) checkLogFormat(o, logger *node) {
	only, what := map[string]string{LogFile: logs.Text, MQ: logs.JSON}[get[string](o, "type")], "the format of logger"
	at := logger.at("format")
	if own := o.at("format"); own != nil {
		at, what = own, "its format"
	}
	if only == "" || at == nil || at.bad || at.value == only {
		return
	}
	kind := map[string]string{LogFile: "a file is written as text", MQ: "a message queue gets JSON"}[get[string](o, "type")]
	if at == o.at("format") {
		w.refuse(at, "write "+only+", or leave it out", "%s only (got %s)", kind, at.shown)
		return
	}
	w.refuseKey(o, "add format: "+only+" here, or leave "+at.path+" out", "%s only, and %s is %s", kind, what, at.shown)
}

// checkBrokers finds addresses that are none.
func (w *walker) checkBrokers(o *node) {
	brokers, backend := o.at("brokers"), get[string](o, "backend")
	if brokers == nil || brokers.bad || backend == "" {
		return
	}
	if len(brokers.items) == 0 {
		w.refuseKey(brokers, "such as [127.0.0.1:9092]", "names no broker")
	}
	for i, b := range brokers.items {
		text, ok := b.value.(string)
		scheme, _, isURL := strings.Cut(strings.ToLower(text), "://")
		_, port, err := net.SplitHostPort(text)
		switch {
		case b.bad || !ok:
		case isURL && scheme != backend && (backend != redisBackend || scheme != "rediss"):
			w.refuse(b, "write "+backend+"://…, or HOST:PORT", "is no address of %s", backend)
		case isURL && backend == redisBackend && badURL(text), !isURL && (err != nil || port == ""):
			w.refuse(b, "such as 127.0.0.1:9092", "must be HOST:PORT, or a URL")
		case i > 0 && (isURL || backend == redisBackend):
			w.refuse(b, "keep one of them", "more than one address of Redis, or URL, is not possible")
		}
	}
}

func badURL(text string) bool {
	u, err := url.Parse(text)
	return err != nil || u.Hostname() == ""
}

// bindLogger gives the values their types.
func bindLogger(n *node) Logger {
	l := Logger{Enabled: get[bool](n, "enabled"), Level: get[string](n, "level"),
		Metrics: get[bool](n.at("prometheus"), "enabled")}
	if include := n.at("include"); include != nil {
		l.Include = append([]string{}, include.texts()...)
	}
	buffer, flush := get[int](n, "buffer"), get[time.Duration](n, "flush_interval")
	format, _ := find[string](n, "format")
	outputs := n.at("outputs")
	if outputs == nil {
		l.Outputs = []LogOutput{{Name: LogConsole, Type: LogConsole, JSON: format == logs.JSON, Buffer: buffer,
			Flush: flush, Stream: "stderr"}}
		return l
	}
	for _, o := range outputs.items {
		if !get[bool](o, "enabled") {
			continue
		}
		out := LogOutput{
			Name: cmp.Or(get[string](o, "name"), get[string](o, "type")), Type: get[string](o, "type"),
			Level: get[string](o, "level"), Buffer: buffer, Flush: flush, Stream: get[string](o, "stream"),
			Path:  get[string](o, "path"),
			Daily: get[string](o, "rotate") == "daily", MaxFiles: get[int](o, "max_files"),
			Backend: get[string](o, "backend"), Topic: get[string](o, "topic"), Batch: get[int](o, "batch_size"),
			Compression: get[string](o, "compression"), Brokers: o.at("brokers").texts(),
		}
		own, stated := find[string](o, "format")
		out.JSON = out.Type == MQ || stated && own == logs.JSON || !stated && format == logs.JSON
		if most, ok := find[int](o, "buffer"); ok {
			out.Buffer = most
		}
		if !out.Daily {
			out.MaxBytes = int64(get[int](o, "max_size_mb")) << 20
		}
		l.Outputs = append(l.Outputs, out)
	}
	return l
}
