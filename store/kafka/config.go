package kafka

import (
	"log/slog"
	"net"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Config says which brokers to use, and how. A zero field is the default.
type Config struct {
	// Brokers are the addresses to start from, HOST:PORT; at least one.
	Brokers []string
	// Group is the consumer group: processes of one group share the work.
	// Default: "pawl".
	Group string
	// ClientID names this process to the brokers. Default: "pawl".
	ClientID string
	// HandlerVersion is the version of the program whose handlers fail: dead letters
	// name it. Default: that of the program's main module, as it was built; a program
	// that was built without one has its commit.
	HandlerVersion string
	// Instance, where set, makes the process a static member of the group
	// (KIP-345): started again under the same name within the session timeout, it
	// gets its partitions back at once. No two processes may share it.
	Instance string
	// Protocol is how members of the group share partitions: [ProtocolClassic], the
	// default, or [ProtocolConsumer].
	Protocol string
	// TLS, User and Password are for brokers that want them (SASL SCRAM-SHA-512,
	// or what Mechanism says: PLAIN, SCRAM-SHA-256).
	TLS            bool
	User, Password string
	Mechanism      string
	// CA is a file of certificates (PEM) of the authorities that sign those of the
	// brokers. Default: the system's. Cert and Key are files of a certificate and its key,
	// by which this process authenticates. Each of them turns TLS on.
	CA, Cert, Key string
	// TokenFile is a file with a token, for brokers that want OAUTHBEARER. It is read for
	// every connection, so it can be renewed in place.
	TokenFile string
	// Prefix stands before the name of every topic at the brokers. A user's topic
	// "mail" is their "PREFIXmail".
	Prefix string
	// DeadSuffix makes the name of the topic of a topic's dead letters. Default:
	// ".dead".
	DeadSuffix string
	// DeadNames are names that differ from that rule, by topic.
	DeadNames map[string]string
	// StateTopic is the topic of the store's state: settings, pauses, operations.
	// Default: "pawl.state".
	StateTopic string
	// Create says how missing topics are created.
	Create Creation

	Produce Producing
	Consume Consuming

	// Logger gets what an operator should know; nil is none.
	Logger *slog.Logger
	// Now is the clock of leases and retries, for tests; nil is time.Now.
	Now func() time.Time
	// Dial replaces the way connections are made, for tests.
	Dial Dial
}

// The protocols of a group. In the classic one its members agree on who has which
// partition, and all of them join whenever one comes or goes. In the newer one (KIP-848,
// Kafka 4.3 or later) the brokers decide, nobody waits for a member that died, and session
// and heartbeat are settings of the brokers; where the brokers do not have it, it is the
// classic one.
const (
	ProtocolClassic  = "classic"
	ProtocolConsumer = "consumer"
)

// Creation is how a topic is created that an append finds missing.
type Creation struct {
	Off        bool   // never: the append fails, with a hint
	Partitions int32  // default: that of the profile
	Replicas   int16  // default: that of the profile
	Profile    string // production, development, or empty: as the broker is configured
}

// Producing are the settings of the producer. It is idempotent and waits for all
// in-sync replicas, always.
type Producing struct {
	Compression string        // none, gzip, snappy, lz4 (default), zstd
	Linger      time.Duration // how long a batch waits for more; default 10 ms; negative: not at all
	Timeout     time.Duration // for the delivery of a message; default 30 s
	Retries     int           // of a message; default 10
	BatchBytes  int32         // at most; default 1 MiB; the topic's max.message.bytes must allow it
	BufferBytes int           // of what is on its way; default 100 MiB
	CloseWait   time.Duration // how long Close waits for what is on its way; default 10 s
}

// Consuming are the settings of the consumer.
type Consuming struct {
	Session   time.Duration // a member is given up after that long without a heartbeat; default 30 s
	Heartbeat time.Duration // default 3 s
	Rebalance time.Duration // how long the members of a group have to give partitions up; default 20 s, or twice Drain
	// how long running handlers of a partition that is given up may take; default 10 s, at most half of
	// Rebalance
	Drain      time.Duration
	Commit     time.Duration // between commits: as much finished work is repeated after a crash; default 1 s
	FetchMin   int32         // bytes a broker waits for; default 1,024
	FetchWait  time.Duration // for as long as this, at most; default 500 ms
	FetchBytes int32         // of an answer, at most; default 32 MiB
	Bytes      int           // of messages in hand, of all partitions together; default 256 MiB
	PartBytes  int           // of messages in hand, of a partition; default 32 MiB
	Count      int           // of messages in hand, of a partition, at most and by default the gate's window of 16,384
	Idle       time.Duration // connections without use are closed after that; default 300 s
}

var groupName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// Complete returns c with the defaults filled in, as a store uses it. The error
// reports everything that is wrong with it at once.
func (c Config) Complete() (Config, error) {
	def(&c.Group, "pawl")
	def(&c.ClientID, "pawl")
	def(&c.DeadSuffix, ".dead")
	def(&c.StateTopic, "pawl.state")
	def(&c.Protocol, ProtocolClassic)
	def(&c.HandlerVersion, builtVersion())
	def(&c.Mechanism, "SCRAM-SHA-512")
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Produce.defaults()
	c.Consume.defaults()
	var errs pawl.Faults
	c.check(&errs)
	c.Consume.check(&errs)
	c.Produce.check(&errs)
	if err := errs.Err(); err != nil {
		return c, &store.Error{Op: "open", Code: store.ErrInvalid, Err: err}
	}
	return c, nil
}

// builtVersion is the version that the Go tools wrote into the program; nothing if
// they wrote none.
var builtVersion = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
})

// def gives a field that is not set its default.
func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (p *Producing) defaults() {
	def(&p.Compression, "lz4")
	def(&p.Linger, 10*time.Millisecond)
	def(&p.Timeout, 30*time.Second)
	def(&p.Retries, 10)
	def(&p.BatchBytes, 1<<20)
	def(&p.BufferBytes, 100<<20)
	def(&p.CloseWait, 10*time.Second)
}

func (c *Consuming) defaults() {
	def(&c.Session, 30*time.Second)
	def(&c.Heartbeat, min(3*time.Second, c.Session/3))
	def(&c.Rebalance, max(20*time.Second, 2*c.Drain)) // a join waits that long for members that died
	def(&c.Drain, min(10*time.Second, c.Rebalance/2))
	def(&c.Commit, time.Second)
	def(&c.FetchMin, 1024)
	def(&c.FetchWait, 500*time.Millisecond)
	def(&c.FetchBytes, 32<<20)
	def(&c.Bytes, 256<<20)
	def(&c.PartBytes, 32<<20)
	def(&c.Count, maxCount)
	def(&c.Idle, 300*time.Second)
}

func (c *Config) check(faults *pawl.Faults) {
	isName := groupName.MatchString
	faults.If(len(c.Brokers) == 0, "no broker is named")
	for _, b := range c.Brokers {
		host, port, err := net.SplitHostPort(b)
		n, wrong := strconv.ParseUint(port, 10, 16)
		faults.If(err != nil || host == "" || wrong != nil || n == 0, "broker %q is not HOST:PORT", b)
	}
	faults.If(!isName(c.Group), "group %q: it is 1 to 249 of A-Z a-z 0-9 . _ -", c.Group)
	faults.If(c.Protocol != ProtocolClassic && c.Protocol != ProtocolConsumer,
		"protocol %q is unknown; there is %s and %s", c.Protocol, ProtocolClassic, ProtocolConsumer)
	faults.If(!isName(c.StateTopic), "state topic %q: it is 1 to 249 of A-Z a-z 0-9 . _ -", c.StateTopic)
	faults.If(!isName(c.DeadSuffix), "suffix of dead-letter topics %q: it is made of A-Z a-z 0-9 . _ -", c.DeadSuffix)
	for of, dead := range c.DeadNames {
		faults.If(!isName(of) || !isName(dead) || of == dead || dead == c.StateTopic,
			"dead letters of %q in %q: both are names of topics, and two", of, dead)
	}
	faults.If((c.Cert == "") != (c.Key == ""), "cert and key go together")
	faults.If(c.TokenFile != "" && c.User != "", "give a token or a user, not both")
	faults.If((c.User == "") != (c.Password == ""), "user and password go together")
	faults.If(!slices.Contains([]string{"", "production", "development"}, c.Create.Profile),
		"profile %q is unknown; there is production, development", c.Create.Profile)
	faults.If(!slices.Contains([]string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}, strings.ToUpper(c.Mechanism)),
		"mechanism %q is unknown; there is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", c.Mechanism)
}

func (c *Consuming) check(faults *pawl.Faults) {
	if c.Session < time.Second {
		faults.If(true, "consumer: session of %v; it is at least 1s", c.Session)
	} else {
		faults.If(c.Heartbeat <= 0 || c.Heartbeat > c.Session/2,
			"consumer: heartbeat of %v with a session of %v; it is at most half of it", c.Heartbeat, c.Session)
	}
	faults.If(c.Drain < 0 || c.Drain > c.Rebalance/2,
		"consumer: drain of %v with a rebalance timeout of %v; it is at most half of it", c.Drain, c.Rebalance)
	faults.If(c.Commit < time.Millisecond || c.Commit > time.Minute,
		"consumer: commit every %v; it goes from 1ms to 1m", c.Commit)
	faults.If(c.Count < 1 || c.Count > maxCount,
		"consumer: %d messages of a partition in hand; it goes from 1 to %d", c.Count, maxCount)
	faults.If(c.Bytes < 1<<20 || c.PartBytes < 1<<20 || c.FetchBytes < 1<<10 || c.FetchMin < 1,
		"consumer: bytes: at least 1 MiB in hand and of a partition, 1 KiB of an answer, 1 of a fetch")
}

func (p *Producing) check(faults *pawl.Faults) {
	_, known := codecs[p.Compression]
	faults.If(!known, "compression %q is unknown; there is none, gzip, snappy, lz4, zstd", p.Compression)
	faults.If(p.Timeout < time.Second || p.Retries < 0 || p.BatchBytes < 1<<10 || p.BufferBytes < int(p.BatchBytes) ||
		p.CloseWait < 0, "producer: the timeout is at least 1s, retries are not negative, "+
		"a batch has at least 1 KiB, and the buffer holds at least one")
}
