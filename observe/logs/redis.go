package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/pierrec/lz4/v4"
	"github.com/redis/go-redis/v9"

	"github.com/pawl-dev/pawl/tlscause"
)

// RedisConfig says which stream of a Redis server gets the records.
type RedisConfig struct {
	// URL is redis://[USER:PASSWORD@]HOST:PORT[/DB]; rediss: is with TLS.
	URL    string
	Stream string
	// Batch is how many records an entry of the stream has at most.
	Batch int
	LZ4   bool // else entries are not compressed
}

// redisEntries is about how many entries the stream keeps.
const redisEntries = 10_000

// How long Redis may take to connect, to answer, and to come back until records are given up.
const (
	redisDial   = 5 * time.Second
	redisAnswer = 10 * time.Second
	redisGiveUp = 10 * time.Second
)

// stream appends entries to a stream: n is how many records an entry has, enc how they are packed, data the lines. A
// batch of which it is not known whether it arrived is sent again.
type stream struct {
	RedisConfig
	client *redis.Client
	ctx    context.Context
	cancel context.CancelFunc
	packer *lz4.Writer
	data   []byte // of an entry
}

// entry is one of a batch, with its lines.
type entry struct {
	lines int
	args  redis.XAddArgs
}

// NewRedis returns an output that connects when there is something to write. It says at once if the URL is wrong.
func NewRedis(c RedisConfig) (Output, error) {
	u, bad := url.Parse(c.URL)
	options, err := redis.ParseURL(c.URL)
	if bad != nil || err != nil || u.Hostname() == "" {
		return nil, errors.New("the address of Redis is not redis://[USER:PASSWORD@]HOST:PORT[/DB]") // it may be secret
	}
	options.Protocol, options.DisableIdentity, options.PipelinePoolSize, options.MaxRetries = 2, true, 1, -1
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = redisDial, redisAnswer, redisAnswer
	options.Dialer = quietly(redis.NewDialer(options))
	s := &stream{RedisConfig: c, client: redis.NewClient(options), packer: lz4.NewWriter(nil)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, s.packer.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ConcurrencyOption(1))
}

// quietly has a connection that cannot be made fail at its first use, with the error of dial: go-redis writes of a dial
// that fails to the log that it has for the whole process, in which others may want to read about theirs.
func quietly(dial func(_ context.Context, network, address string) (net.Conn, error)) func(context.Context, string,
	string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			return conn, nil
		}
		none, _ := net.Pipe()
		return unmade{none, err}, nil
	}
}

// unmade is a connection that could not be made.
type unmade struct {
	net.Conn
	err error
}

// Read implements net.Conn.
func (u unmade) Read([]byte) (int, error) { return 0, u.err }

// Write implements net.Conn.
func (u unmade) Write([]byte) (int, error) { return 0, u.err }

// Write implements Output.
func (s *stream) Write(b *Batch) {
	entries, err := s.encode(b)
	why := err
	for began, pause := time.Now(), 50*time.Millisecond; err == nil; pause = min(2*pause, time.Second) {
		var refused error
		unwritten := 0
		if unwritten, refused, err = s.send(entries); err == nil {
			b.Done(unwritten, refused)
			return
		}
		if why == nil || s.ctx.Err() == nil { // that Close cut it off is no reason
			why = err
		}
		if time.Since(began) < redisGiveUp && s.wait(pause) {
			err = nil
		}
	}
	b.Done(b.Lines(), s.explain(why))
}

// explain adds to an error of the connection what a person can do about it.
func (s *stream) explain(err error) error {
	secure, advice := s.client.Options().TLSConfig != nil, tlscause.Advice{Plain: "use redis:// in a network that you trust"}
	switch {
	case secure && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: if the server has no TLS at this port, %s", err, advice.Plain)
	case !secure && errors.Is(err, io.EOF):
		return fmt.Errorf("%w: if the server has TLS at this port, use rediss://", err)
	}
	return tlscause.Explain(err, advice)
}

func (s *stream) wait(pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// encode makes the entries of a batch.
func (s *stream) encode(b *Batch) (entries []entry, err error) {
	n := 0
	add := func() {
		enc, body := "none", s.data
		if s.LZ4 {
			packed := bytes.NewBuffer(make([]byte, 0, len(s.data)/4))
			s.packer.Reset(packed)
			_, err = s.packer.Write(s.data)
			err = errors.Join(err, s.packer.Close())
			enc, body = "lz4", packed.Bytes()
		} else {
			body = bytes.Clone(body)
		}
		entries = append(entries, entry{n, redis.XAddArgs{Stream: s.Stream, MaxLen: redisEntries, Approx: true,
			Values: []any{"n", n, "enc", enc, "data", body}}})
		s.data, n = s.data[:0], 0
	}
	for line := range b.All() {
		s.data = append(s.data, line...)
		if n++; n >= s.Batch {
			add()
		}
	}
	if n > 0 {
		add()
	}
	return entries, err
}

// send appends entries. What the server refuses is no error of the connection, unless it has just been started.
func (s *stream) send(entries []entry) (unwritten int, refused, err error) {
	pipe := s.client.Pipeline()
	for i := range entries {
		pipe.XAdd(s.ctx, &entries[i].args)
	}
	answers, _ := pipe.Exec(s.ctx)
	for i, a := range answers {
		no := a.Err()
		if no == nil {
			continue
		}
		if _, answered := errors.AsType[redis.Error](no); !answered || redis.HasErrorPrefix(no, "LOADING") {
			return 0, nil, no
		}
		unwritten, refused = unwritten+entries[i].lines, no
	}
	return unwritten, refused, nil
}

// Close implements Output. It ends a write that hangs.
func (s *stream) Close() {
	s.cancel()
	_ = s.client.Close() // it is of no use any more
}
