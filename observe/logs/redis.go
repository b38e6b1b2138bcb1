package logs

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pierrec/lz4/v4"
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

// redis appends entries to a stream: n is how many records an entry has, enc how they are packed, data the lines. A
// batch of which it is not known whether it arrived is sent again.
type redis struct {
	RedisConfig
	address string
	secure  *tls.Config
	hello   [][]string // what a connection begins with
	ctx     context.Context
	cancel  context.CancelFunc
	conn    net.Conn
	undo    func() bool // of closing the connection at the end
	in      *bufio.Reader
	packed  bytes.Buffer
	packer  *lz4.Writer
	request []byte
}

// NewRedis returns an output that connects when there is something to write. It says at once if the URL is wrong.
func NewRedis(c RedisConfig) (Output, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Hostname() == "" {
		return nil, errors.New("the address of Redis is not redis://[USER:PASSWORD@]HOST:PORT[/DB]") // it may be secret
	}
	r := &redis{RedisConfig: c, address: net.JoinHostPort(u.Hostname(), "6379"), packer: lz4.NewWriter(nil)}
	if u.Port() != "" {
		r.address = u.Host
	}
	if u.Scheme == "rediss" {
		r.secure = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	}
	if password, ok := u.User.Password(); ok {
		auth := []string{"AUTH", password}
		if name := u.User.Username(); name != "" {
			auth = []string{"AUTH", name, password}
		}
		r.hello = append(r.hello, auth)
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if _, err := strconv.ParseUint(db, 10, 16); err != nil {
			return nil, fmt.Errorf("the database of Redis is %q, not a number", db)
		}
		r.hello = append(r.hello, []string{"SELECT", db})
	}
	if err := r.packer.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ConcurrencyOption(1)); err != nil {
		return nil, err
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// Write implements Output.
func (r *redis) Write(b *Batch) {
	entries, err := r.encode(b)
	for began, pause := time.Now(), 50*time.Millisecond; err == nil; pause = min(2*pause, time.Second) {
		var refused error
		unwritten := 0
		if unwritten, refused, err = r.send(entries); err == nil {
			b.Done(unwritten, refused)
			return
		}
		r.drop()
		if time.Since(began) < redisGiveUp && r.wait(pause) {
			err = nil
		}
	}
	b.Done(b.Lines(), err)
}

func (r *redis) wait(pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}

// encode makes one request of a batch, and says how many lines each entry has.
func (r *redis) encode(b *Batch) (entries []int, err error) {
	enc, pack := "none", io.Writer(&r.packed)
	if r.LZ4 {
		enc, pack = "lz4", r.packer
	}
	r.request = r.request[:0]
	n, left := 0, b.Lines()
	for line := range b.All() {
		if n == 0 {
			r.packed.Reset()
			r.packer.Reset(&r.packed)
		}
		_, bad := pack.Write(line)
		err = errors.Join(err, bad)
		if n, left = n+1, left-1; n < r.Batch && left > 0 {
			continue
		}
		if r.LZ4 {
			err = errors.Join(err, r.packer.Close())
		}
		r.request = appendCommand(r.request, "XADD", r.Stream, "MAXLEN", "~", strconv.Itoa(redisEntries), "*",
			"n", strconv.Itoa(n), "enc", enc, "data", r.packed.String())
		entries = append(entries, n)
		n = 0
	}
	return entries, err
}

// appendCommand appends a command as Redis reads it.
func appendCommand(b []byte, words ...string) []byte {
	b = append(strconv.AppendInt(append(b, '*'), int64(len(words)), 10), "\r\n"...)
	for _, w := range words {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(w)), 10), "\r\n"...)
		b = append(append(b, w...), "\r\n"...)
	}
	return b
}

// send sends the request and reads its answers. What the server refuses is no error of the connection.
func (r *redis) send(entries []int) (unwritten int, refused, err error) {
	if r.conn == nil {
		if err := r.dial(); err != nil {
			return 0, nil, err
		}
	}
	if err := r.conn.SetDeadline(time.Now().Add(redisAnswer)); err != nil {
		return 0, nil, err
	}
	if _, err := r.conn.Write(r.request); err != nil {
		return 0, nil, err
	}
	for _, lines := range entries {
		no, err := r.answer()
		if err != nil {
			return 0, nil, err
		}
		if no != nil {
			unwritten, refused = unwritten+lines, no
		}
	}
	return unwritten, refused, nil
}

// answer reads one answer of a line, or of one string.
func (r *redis) answer() (refused, err error) {
	line, err := r.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	switch {
	case strings.HasPrefix(line, "-LOADING"): // it has just been started, and will answer soon
		return nil, errors.New("redis: " + line[1:])
	case strings.HasPrefix(line, "-"):
		return errors.New("redis: " + line[1:]), nil
	case strings.HasPrefix(line, "$"):
		n, err := strconv.Atoi(line[1:])
		if err != nil || n < 0 {
			return nil, errors.New("redis: an answer that is none")
		}
		_, err = r.in.Discard(n + 2)
		return nil, err
	}
	return nil, nil
}

func (r *redis) dial() error {
	ctx, cancel := context.WithTimeout(r.ctx, redisDial)
	defer cancel()
	var conn net.Conn
	var err error
	if r.secure != nil {
		conn, err = (&tls.Dialer{Config: r.secure}).DialContext(ctx, "tcp", r.address)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", r.address)
	}
	if err != nil {
		return err
	}
	r.undo = context.AfterFunc(r.ctx, func() { _ = conn.Close() }) // ends a write that hangs
	r.conn, r.in = conn, bufio.NewReader(conn)
	if err := conn.SetDeadline(time.Now().Add(redisAnswer)); err != nil {
		return err
	}
	for _, words := range r.hello {
		if _, err := conn.Write(appendCommand(nil, words...)); err != nil {
			return err
		}
		refused, err := r.answer()
		if err = errors.Join(err, refused); err != nil {
			return err
		}
	}
	return nil
}

// drop gives the connection up.
func (r *redis) drop() {
	if r.conn != nil {
		r.undo()
		_ = r.conn.Close() // it is of no use any more
		r.conn = nil
	}
}

// Close implements Output.
func (r *redis) Close() { r.cancel() }
