package logs_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pierrec/lz4/v4"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/pawl-dev/pawl/observe/logs"
)

// server is the address of a Redis server, and a stream of the test's own there.
func server(t *testing.T) (at, stream string) {
	t.Helper()
	at = os.Getenv("PAWL_TEST_REDIS")
	if at == "" {
		if slices.Contains(strings.Split(os.Getenv("PAWL_TEST_REQUIRE"), ","), "redis") {
			t.Fatal("PAWL_TEST_REDIS is not set, but PAWL_TEST_REQUIRE asks for redis")
		}
		t.Skip("PAWL_TEST_REDIS is not set: no server to test against")
	}
	stream = fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())
	t.Cleanup(func() { ask(t, at, "DEL", stream) })
	return at, stream
}

// ask sends a command and returns all strings of the answer.
func ask(t *testing.T, at string, words ...string) (all []string) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(w), w)
	}
	in := bufio.NewReader(conn)
	for left := 1; left > 0; left-- {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		switch line[0] {
		case '*':
			left += n
		case '$':
			b := make([]byte, n+2)
			if _, err := io.ReadFull(in, b); err != nil {
				t.Fatal(err)
			}
			all = append(all, string(b[:n]))
		default:
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

// streamed are the lines of a stream, and how many entries it has.
func streamed(t *testing.T, at, stream string) (text string, entries int) {
	t.Helper()
	all := ask(t, at, "XRANGE", stream, "-", "+")
	for i := 0; i+6 < len(all); i += 7 { // id, n, _, enc, _, data, _
		data := []byte(all[i+6])
		if all[i+4] == "lz4" {
			var err error
			if data, err = io.ReadAll(lz4.NewReader(bytes.NewReader(data))); err != nil {
				t.Fatal(err)
			}
		}
		if n := fmt.Sprint(bytes.Count(data, []byte("\n"))); n != all[i+2] {
			t.Errorf("entry %s says that it has %s records, and has %s", all[i], all[i+2], n)
		}
		text += string(data)
		entries++
	}
	return text, entries
}

func TestRedisHasEveryRecord(t *testing.T) {
	at, stream := server(t)
	for _, packed := range []bool{true, false} {
		o, err := logs.NewRedis(logs.RedisConfig{URL: at, Stream: stream, Batch: 50, LZ4: packed})
		if err != nil {
			t.Fatal(err)
		}
		log := logs.New(logs.Config{Sinks: []logs.Sink{{Name: "mq", JSON: true, Batch: 50, Output: o}}})
		for range 1000 {
			slog.New(log.Handler()).Info("hello", "padding", strings.Repeat("x", 200))
		}
		log.Close()
		text, entries := streamed(t, at, stream)
		if written, _ := account(t, text, 1000); written != 1000 || entries < 20 {
			t.Errorf("%d records in %d entries", written, entries)
		}
		ask(t, at, "DEL", stream)
	}
}

// cuts is a way to the server that can be cut.
type cuts struct {
	net.Listener
	to string
}

func (c *cuts) serve() {
	for {
		conn, err := c.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			there, err := net.Dial("tcp", c.to)
			if err != nil {
				return
			}
			defer func() { _ = there.Close() }()
			go func() { _, _ = io.Copy(there, conn) }()
			_, _ = io.Copy(conn, there)
		}()
	}
}

// TestRedisThatIsAwayForAMomentLosesNothing: there is no server at first, and there is one before records are given up.
func TestRedisThatIsAwayForAMomentLosesNothing(t *testing.T) {
	at, stream := server(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := hole.Addr().String()
	_ = hole.Close()
	o, err := logs.NewRedis(logs.RedisConfig{URL: "redis://" + address, Stream: stream, Batch: 50})
	if err != nil {
		t.Fatal(err)
	}
	log := logs.New(logs.Config{Sinks: []logs.Sink{{Name: "mq", JSON: true, Output: o}}})
	for range 10 {
		slog.New(log.Handler()).Info("hello")
	}
	time.Sleep(20 * time.Millisecond)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("the port is taken meanwhile: %v", err)
	}
	way := &cuts{listener, u.Host}
	go way.serve()
	defer func() { _ = listener.Close() }()
	await(t, func() bool { return log.Figures()[0].Lag == 0 })
	log.Close()
	text, _ := streamed(t, at, stream)
	if written, _ := account(t, text, 10); written != 10 {
		t.Errorf("%d of 10", written)
	}
}

// TestRedisThatRefuses: an answer that is an error is no reason to try again.
func TestRedisThatRefuses(t *testing.T) {
	at, stream := server(t)
	ask(t, at, "SET", stream, "no stream")
	o, err := logs.NewRedis(logs.RedisConfig{URL: at, Stream: stream, Batch: 50})
	if err != nil {
		t.Fatal(err)
	}
	other := &output{}
	log := logs.New(logs.Config{Sinks: []logs.Sink{{Name: "mq", JSON: true, Output: o}, {Name: "other", Output: other}}})
	slog.New(log.Handler()).Info("hello")
	await(t, func() bool {
		return log.Figures()[0].Dropped["failed"] == 1 && strings.Contains(other.String(), "WRONGTYPE")
	})
	log.Close()
}

// goRedisLog takes what go-redis logs in this process.
type goRedisLog chan string

// Printf implements the logger of go-redis.
func (l goRedisLog) Printf(_ context.Context, format string, args ...any) {
	l <- fmt.Sprintf(format, args...)
}

// TestTheLogOfGoRedisIsLeftAlone: a program that has go-redis itself keeps its log of it, and reads nothing there about
// an output that fails.
func TestTheLogOfGoRedisIsLeftAlone(t *testing.T) {
	said := make(goRedisLog, 100)
	redis.SetLogger(said)
	defer logging.Enable()
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := hole.Addr().String()
	_ = hole.Close()
	o, err := logs.NewRedis(logs.RedisConfig{URL: "redis://:p@" + address, Stream: "s", Batch: 50})
	if err != nil {
		t.Fatal(err)
	}
	other := &output{}
	log := logs.New(logs.Config{Sinks: []logs.Sink{{Name: "mq", JSON: true, Output: o}, {Name: "other", Output: other}}})
	slog.New(log.Handler()).Info("hello")
	time.Sleep(200 * time.Millisecond) // it is tried more than once
	o.Close()
	await(t, func() bool { return strings.Contains(other.String(), "connection refused") })
	log.Close()
	if n := log.Figures()[0].Dropped["failed"]; n != 1 {
		t.Errorf("%d were dropped", n)
	}
	if len(said) > 0 {
		t.Errorf("said by ours: %q", <-said)
	}
	theirs := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = theirs.Close() }()
	if err := theirs.Ping(t.Context()).Err(); err == nil || len(said) != 1 {
		t.Errorf("of theirs: %v, said %d times", err, len(said))
	}
}

// counting counts the connections to a server.
type counting struct {
	net.Listener
	connections atomic.Int32
}

func (c *counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	c.connections.Add(1)
	return conn, err
}

// TestRedisSaysWhatIsWrongWithTLS, and what to change.
func TestRedisSaysWhatIsWrongWithTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure := &counting{Listener: server.Listener}
	server.Listener = secure
	server.StartTLS()
	t.Cleanup(server.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hangsUp := &counting{Listener: listener}
	t.Cleanup(func() { _ = hangsUp.Close() })
	go func() {
		for c, err := hangsUp.Accept(); err == nil; c, err = hangsUp.Accept() {
			_, _ = c.Read(make([]byte, 1)) // nothing is left unread
			_ = c.(*net.TCPConn).CloseWrite()
		}
	}()
	for scheme, c := range map[string]struct {
		at   *counting
		want string
	}{"rediss": {secure, "SSL_CERT_FILE"}, "redis": {hangsUp, "use rediss://"}} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			o, err := logs.NewRedis(logs.RedisConfig{URL: scheme + "://" + c.at.Addr().String(), Stream: "s", Batch: 1})
			if err != nil {
				t.Fatal(err)
			}
			other := &output{}
			l := logs.New(logs.Config{Sinks: []logs.Sink{{Name: "mq", Output: o}, {Name: "other", Output: other}}})
			slog.New(l.Handler()).Info("hello")
			await(t, func() bool { return c.at.connections.Load() > 3 }) // an attempt makes two at most
			o.Close()
			await(t, func() bool { return strings.Contains(other.String(), c.want) })
			l.Close()
		})
	}
}

func TestAddressesOfRedis(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:6379", "kafka://h:1", "redis://", "redis://u:geheim@h:port", "redis://u:geheim@h/x"} {
		if _, err := logs.NewRedis(logs.RedisConfig{URL: bad}); err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, good := range []string{"redis://h", "rediss://:p@h:1/2", "redis://u:p@[::1]:6379"} {
		if o, err := logs.NewRedis(logs.RedisConfig{URL: good}); err != nil {
			t.Errorf("%s: %v", good, err)
		} else {
			o.Close()
		}
	}
}
