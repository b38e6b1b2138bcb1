package kafka_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// cluster is a broker within the process, with options.
func cluster(t *testing.T, options ...kfake.Opt) []string {
	t.Helper()
	c, err := kfake.NewCluster(append(options, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()
}

func allow(kind kmsg.ACLResourceType, name string) kfake.ACL {
	return kfake.ACL{Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral,
		Operation: kmsg.ACLOperationAll, Allow: true}
}

// TestMissingRights: what a user lacks is named, and what grants it, wherever it is
// noticed. A topic that he cannot see is not one that is not there.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	all := []kfake.ACL{allow(kmsg.ACLResourceTypeTopic, "pawl.state"),
		allow(kmsg.ACLResourceTypeCluster, "kafka-cluster")}
	brokers := cluster(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.SeedTopics(1, "orders", "pawl.state"),
		kfake.User("PLAIN", "ann", "secret", append(all, allow(kmsg.ACLResourceTypeGroup, "pawl"))...),
		kfake.User("PLAIN", "bob", "secret", append(all, allow(kmsg.ACLResourceTypeTopic, "orders"),
			allow(kmsg.ACLResourceTypeTopic, "orders.dead"))...))
	as := func(user string) *kafka.Store {
		c := brisk(brokers)
		c.User, c.Password, c.Mechanism = user, "secret", "PLAIN"
		return open(t, c)
	}
	wants := []store.Want{{Topic: "orders", Limit: 1}}

	ann := as("ann")
	const topic = "--allow-principal User:ann --operation Read --operation Write --operation Describe --topic orders"
	h, err := ann.Health(t.Context(), "orders")
	if err != nil || !strings.Contains(text(h.Faults), topic) || strings.Contains(text(h.Faults), "not there") {
		t.Errorf("health: %v, %v", err, h)
	}
	_, sent := ann.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "orders"}))
	_, claimed := ann.Claim(t.Context(), wants, store.Lease{For: time.Minute, Owner: "test"})
	_, peeked := ann.Peek(t.Context(), "orders", 0, -1, 1)
	for name, err := range map[string]error{"append": sent, "claim": claimed, "peek": peeked} {
		if e, ok := errors.AsType[*store.Error](err); !ok || !errors.Is(err, store.ErrDenied) ||
			!strings.Contains(e.Hint, topic) {
			t.Errorf("%s: %v", name, err)
		}
	}

	bob := as("bob")
	const group = "--allow-principal User:bob --operation Read --group pawl"
	if _, err := bob.Claim(t.Context(), wants, store.Lease{For: time.Minute, Owner: "test"}); err != nil {
		t.Error(err)
	}
	hasFault(t, bob, group)
	_, err = bob.Health(t.Context(), "orders")
	if e, ok := errors.AsType[*store.Error](err); !ok || !errors.Is(err, store.ErrDenied) ||
		!strings.Contains(e.Hint, group) {
		t.Errorf("health: %v", err)
	}
}

func text(faults []kafka.Fault) string {
	var all strings.Builder
	for _, f := range faults {
		all.WriteString(f.About + ": " + f.What + "\n")
	}
	return all.String()
}

// TestMismatch: when a port expects something else than the store says, the next step is
// to say it.
func TestMismatch(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	secure := cluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
	pool := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(leaf)
	guests := cluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert}))
	strange, strangeKey := selfSigned(t)
	file := func(token string) string {
		name := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(name, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	users := cluster(t, kfake.EnableSASL())
	ann := func(code *kerr.Error) kafka.Config {
		return kafka.Config{Brokers: refusing(t, code), User: "ann", Password: "secret", Mechanism: "PLAIN"}
	}
	for name, c := range map[string]struct {
		config kafka.Config
		hint   string
	}{
		"TLS to a port without":    {kafka.Config{Brokers: hangsUp(t), TLS: true}, "does not seem to speak TLS"},
		"no TLS to a port with it": {kafka.Config{Brokers: secure}, "tls=true"},
		"an unknown authority":     {kafka.Config{Brokers: secure, TLS: true}, "ca=FILE"},
		"no certificate of ours":   {kafka.Config{Brokers: guests, CA: cert}, "cert=FILE&key=FILE"},
		"a strange certificate": {kafka.Config{Brokers: guests, CA: cert, Cert: strange, Key: strangeKey},
			"refuses the certificate of this process"},
		"a token that has expired": {kafka.Config{Brokers: tokens(t, "new"), TokenFile: file("old")},
			"that has not expired"},
		"no file with a token": {kafka.Config{Brokers: tokens(t, "new"), TokenFile: "/none/token"},
			"put a token into /none/token"},
		"no user":                  {kafka.Config{Brokers: users}, "USER:PASSWORD@"},
		"another mechanism":        {ann(kerr.UnsupportedSaslMechanism), "does not accept PLAIN"},
		"a wrong password":         {ann(kerr.SaslAuthenticationFailed), "user, password and mechanism (PLAIN)"},
		"a user to a port without": {ann(kerr.IllegalSaslState), "accepts no user"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := kafka.Open(t.Context(), c.config)
			if e, ok := errors.AsType[*store.Error](err); !ok || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestToken: a token is read from its file, and gets in.
func TestToken(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte("right\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := brisk(tokens(t, "right"))
	c.TokenFile = name
	if _, err := open(t, c).Append(t.Context(), store.NewBatch(pawl.Message{Topic: "orders"})); err != nil {
		t.Error(err)
	}
}

// tokens is a broker that takes one token, and answers others as Kafka does.
func tokens(t *testing.T, token string) []string {
	c := fakeCluster(t, 1)
	c.ControlKey(kmsg.SASLHandshake.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := r.ResponseKind().(*kmsg.SASLHandshakeResponse)
		if r.(*kmsg.SASLHandshakeRequest).Mechanism != "OAUTHBEARER" {
			resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		}
		return resp, nil, true
	})
	c.ControlKey(kmsg.SASLAuthenticate.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		if string(r.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes) != "n,,\x01auth=Bearer "+token+"\x01\x01" {
			resp.SASLAuthBytes = []byte(`{"status":"invalid_token"}`)
		}
		return resp, nil, true
	})
	return c.ListenAddrs()
}

// refusing is a broker that refuses every user.
func refusing(t *testing.T, code *kerr.Error) []string {
	c := fakeCluster(t, 1)
	c.ControlKey(kmsg.SASLHandshake.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := r.ResponseKind().(*kmsg.SASLHandshakeResponse)
		resp.ErrorCode = code.Code
		return resp, nil, true
	})
	return c.ListenAddrs()
}

// hangsUp is a port where connections end when something comes that is not understood, as
// a broker's without TLS does.
func hangsUp(t *testing.T) []string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 64))
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	return []string{l.Addr().String()}
}

// TestMissingTopicIsNotMade: with no_create a worker that waits for a topic says so.
func TestMissingTopicIsNotMade(t *testing.T) {
	t.Parallel()
	c := brisk(cluster(t, kfake.SeedTopics(1, "pawl.state", "a.pawl.state")))
	c.Create.Off = true
	s := open(t, c)
	if _, err := s.Claim(t.Context(), []store.Want{{Topic: "orders", Limit: 1}},
		store.Lease{For: time.Minute, Owner: "test"}); err != nil {
		t.Fatal(err)
	}
	hasFault(t, s, "pawl kafka topics ensure orders")
	c.Prefix = "a."
	_, err := open(t, c).Append(t.Context(), store.NewBatch(pawl.Message{Topic: "mail"}))
	if e, ok := errors.AsType[*store.Error](err); !ok || !strings.HasSuffix(e.Hint, "ensure mail") {
		t.Errorf("append: %v", err)
	}
}
