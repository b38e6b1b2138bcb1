package kafka

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/pawl-dev/pawl/store"
)

// Dial makes a connection to a broker.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

var codecs = map[string][]kgo.CompressionCodec{
	"none":   {kgo.NoCompression()},
	"gzip":   {kgo.GzipCompression(), kgo.NoCompression()},
	"snappy": {kgo.SnappyCompression(), kgo.NoCompression()},
	"lz4":    {kgo.Lz4Compression(), kgo.NoCompression()},
	"zstd":   {kgo.ZstdCompression(), kgo.NoCompression()},
}

func (s *core) options() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(s.cfg.Brokers...),
		kgo.ClientID(s.cfg.ClientID),
		kgo.SoftwareNameAndVersion("pawl", "0"),
		kgo.ConnIdleTimeout(s.cfg.Consume.Idle),
		kgo.WithLogger(clientLog{s.cfg.Logger}), kgo.WithHooks(&s.traffic),
		kgo.MetadataMaxAge(metadataAge), kgo.MetadataMinAge(metadataMin),
		kgo.DisableClientMetrics(), // they go to the brokers; ours are at /metrics
	}
	if s.cfg.Dial != nil {
		opts = append(opts, kgo.Dialer(s.cfg.Dial))
	} else if s.tls != nil {
		opts = append(opts, kgo.DialTLSConfig(s.tls.Clone()))
	}
	if s.cfg.TokenFile != "" {
		opts = append(opts, kgo.SASL(s.bearer()))
	}
	if s.cfg.User != "" {
		opts = append(opts, kgo.SASL(s.mechanism()))
	}
	return opts
}

func (s *core) mechanism() sasl.Mechanism {
	switch strings.ToUpper(s.cfg.Mechanism) {
	case "PLAIN":
		return plain.Auth{User: s.cfg.User, Pass: s.cfg.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.cfg.User, Pass: s.cfg.Password}.AsSha256Mechanism()
	default:
		return scram.Auth{User: s.cfg.User, Pass: s.cfg.Password}.AsSha512Mechanism()
	}
}

// producerOptions are those of the client that produces. Keys are hashed as the
// Java client does it (murmur2), so that producers in other languages put a key
// where we do.
func (s *core) producerOptions() []kgo.Opt {
	p := &s.cfg.Produce
	return append(s.options(),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(slices.Clone(codecs[p.Compression])...), // the client writes to it
		kgo.ProducerLinger(max(p.Linger, 0)),
		kgo.ProducerBatchMaxBytes(p.BatchBytes),
		kgo.MaxBufferedRecords(math.MaxInt), // and no bound of bytes: buffer sees to it
		kgo.RecordDeliveryTimeout(p.Timeout),
		kgo.RecordRetries(p.Retries),
		// A topic is produced to when a broker has said that it is there; the others
		// may hear of it later. They are asked every metadataMin.
		kgo.UnknownTopicRetries(30),
		kgo.RecordPartitioner(partitioner{kgo.UniformBytesPartitioner(64<<10, true, true, nil), s, false}),
	)
}

// partitioner puts a dead letter where its message was, a replayed message back there, and
// everything else where the Java client would.
type partitioner struct {
	kgo.Partitioner
	s       *core
	replays bool // there are replayed messages
}

// ForTopic implements kgo.Partitioner.
func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	others := p.Partitioner.ForTopic(topic)
	if _, dead := p.s.cfg.deadHome(p.s.plain(topic)); dead || p.replays {
		return topicPartitioner{others, dead}
	}
	return others // as it is: the client looks for optional methods of it
}

type topicPartitioner struct {
	kgo.TopicPartitioner
	dead bool // it is a topic of dead letters
}

// homeKey is the key of the partition in the context of a replayed record; a producer in
// another language may have chosen that partition in its own way.
type homeKey struct{}

func (p topicPartitioner) home(r *kgo.Record, n int) (int, bool) {
	if p.dead {
		return int(r.Partition) % n, true
	}
	home, said := r.Context.Value(homeKey{}).(int32)
	return int(home), said && int(home) < n // a topic that was made again may have fewer
}

// RequiresConsistency implements kgo.TopicPartitioner.
func (p topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	_, said := p.home(r, math.MaxInt)
	return said || p.TopicPartitioner.RequiresConsistency(r)
}

// Partition implements kgo.TopicPartitioner.
func (p topicPartitioner) Partition(r *kgo.Record, n int) int {
	if home, said := p.home(r, n); said {
		return home
	}
	return p.TopicPartitioner.Partition(r, n)
}

// consumerOptions are those of the client that consumes topics.
func (s *core) consumerOptions(topics []string) []kgo.Opt {
	c := &s.cfg.Consume
	opts := append(s.options(),
		kgo.ConsumerGroup(s.cfg.Group),
		kgo.ConsumeTopics(topics...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(c.Session), kgo.HeartbeatInterval(c.Heartbeat), kgo.RebalanceTimeout(c.Rebalance),
		// Rebalances wait until the polled records are taken in, and for nothing else: so a
		// record of an assignment that is over cannot get into the next.
		kgo.BlockRebalanceOnPoll(),
		kgo.DisableAutoCommit(),
		kgo.OnOffsetsFetched(s.group.fetched), kgo.AdjustFetchOffsetsFn(s.group.adjust),
		kgo.OnPartitionsRevoked(s.group.revoked),
		kgo.OnPartitionsLost(s.group.lost),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMinBytes(c.FetchMin), kgo.FetchMaxWait(c.FetchWait), kgo.FetchMaxBytes(c.FetchBytes),
		kgo.FetchMaxPartitionBytes(min(c.FetchBytes, 8<<20)), kgo.MaxConcurrentFetches(4),
		kgo.MaxDecompressBatchBytes(maxReadBytes),
	)
	if s.cfg.Protocol == ProtocolConsumer {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	if s.cfg.Instance != "" {
		opts = append(opts, kgo.InstanceID(s.cfg.Instance))
	}
	return opts
}

// clientLog passes on the log of the client.
type clientLog struct{ *slog.Logger }

// Level implements kgo.Logger.
func (l clientLog) Level() kgo.LogLevel {
	if l.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelWarn
}

// Log implements kgo.Logger. Warnings of the client are logged at debug level: the
// store itself reports what matters.
func (l clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	l.Logger.Debug(msg, append(keyvals, "client_level", level.String())...)
}

// identity is how connections are secured; nil is not at all.
func (c *Config) identity() (*tls.Config, error) {
	if !c.TLS && c.CA == "" && c.Cert == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	var errs []error
	if c.CA != "" {
		text, err := os.ReadFile(c.CA)
		t.RootCAs = x509.NewCertPool()
		if err == nil && !t.RootCAs.AppendCertsFromPEM(text) {
			err = fmt.Errorf("%s has no certificate in it (PEM)", c.CA)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("ca: %w", err))
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			errs = append(errs, fmt.Errorf("cert and key: %w", err))
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, errors.Join(errs...)
}

// bearer is OAUTHBEARER with the token of the file. For a refusal it reports the brokers' own message.
type bearer struct{ sasl.Mechanism }

func (s *core) bearer() sasl.Mechanism { return bearer{oauth.Oauth(s.token)} }

// Authenticate implements [sasl.Mechanism].
func (b bearer) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	_, first, err := b.Mechanism.Authenticate(ctx, host)
	return bearing{}, first, err
}

type bearing struct{}

// Challenge implements [sasl.Session]. Brokers that take the token answer nothing; others answer why, in JSON (RFC
// 7628, section 3.2.2).
func (bearing) Challenge(answer []byte) (bool, []byte, error) {
	if len(answer) == 0 {
		return true, nil, nil
	}
	var why struct {
		Status string `json:"status"`
	}
	if json.Unmarshal(answer, &why) != nil || why.Status == "" {
		why.Status = "no reason given"
	}
	return false, nil, &refusedToken{status: store.Text(why.Status)}
}

// refusedToken is the brokers' answer to a token that they reject.
type refusedToken struct{ status string }

func (e *refusedToken) Error() string { return "the brokers refuse the token: " + e.status }

func (s *core) token(context.Context) (oauth.Auth, error) {
	text, err := os.ReadFile(s.cfg.TokenFile)
	if err != nil {
		return oauth.Auth{}, fmt.Errorf("the token for OAUTHBEARER: %w", err)
	}
	return oauth.Auth{Token: string(bytes.TrimSpace(text))}, nil
}

// producers are the clients that produce, by the largest batch they make. One writes messages,
// and to all topics that take no larger batches; others write to topics of dead letters that
// do. A single one is not enough: a client asks for the batch limit of a topic only when it
// first learns of the topic. It can be made to forget the topic, but then counts its batches
// from 0 again, as the same producer; and brokers take a batch with a number that they have
// just seen for a repetition: they say that it is stored, and drop it.
type producers struct {
	s    *core
	main *kgo.Client

	turn sync.Mutex // of who sends a record alone; it waits for brokers

	mu     sync.Mutex
	sized  map[int32]*kgo.Client // few: topics are seldom configured one by one
	closed bool
}

func (p *producers) init(s *core) (err error) {
	p.s, p.sized = s, map[int32]*kgo.Client{}
	p.main, err = kgo.NewClient(s.producerOptions()...)
	return err
}

// chooser is the client for a record of a topic.
type chooser func(topic string, size int) *kgo.Client

// of is the client that writes to a topic. A record that its topic accepts only when it is
// compressed well does not make a batch too large for others.
func (p *producers) of(topic string, size int) *kgo.Client {
	limit := p.s.topics.limitOf(topic)
	if limit.bytes == p.s.cfg.Produce.BatchBytes || limit.bytes < p.s.cfg.Produce.BatchBytes && !limit.takes(size) {
		return p.main
	}
	return p.with(limit.bytes)
}

// alone is a client for records that are sent one by one.
func (p *producers) alone(string, int) *kgo.Client {
	return p.with(0, kgo.ProducerBatchMaxBytes(maxReadBytes), kgo.ProducerLinger(0))
}

// with is the client whose batches have that many bytes.
func (p *producers) with(bytes int32, opts ...kgo.Opt) *kgo.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.sized[bytes]; c != nil || p.closed {
		return cmp.Or(c, p.main) // which is closed, too, and says so
	}
	if len(opts) == 0 {
		opts = []kgo.Opt{kgo.ProducerBatchMaxBytes(bytes)}
	}
	c, err := kgo.NewClient(append(p.s.producerOptions(), opts...)...)
	if err != nil { // the same options were good for main
		return p.main
	}
	p.sized[bytes] = c
	return c
}

func (p *producers) all() []*kgo.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.AppendSeq([]*kgo.Client{p.main}, maps.Values(p.sized))
}

// forget has the clients forget topics. That is right only for topics that were made
// again: their log is empty, and has seen no batch of ours.
func (p *producers) forget(topics ...string) {
	for _, c := range p.all() {
		c.PurgeTopicsFromProducing(slices.Clone(topics)...) // which sorts them
	}
}

func (p *producers) flush(ctx context.Context) (err error) {
	for _, c := range p.all() {
		err = errors.Join(err, c.Flush(ctx))
	}
	return err
}

func (p *producers) buffered() (records, bytes int64) {
	for _, c := range p.all() {
		records, bytes = records+c.BufferedProduceRecords(), bytes+c.BufferedProduceBytes()
	}
	return records, bytes
}

func (p *producers) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for _, c := range p.all() {
		c.Close()
	}
}
