package open_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/open"
)

// What Open refuses for its form, Check refuses without a server, a file or a folder.
func TestCheckRefusesWhatOpenRefuses(t *testing.T) {
	const secret = "pass-word"
	file := filepath.Join(t.TempDir(), "pawl.db")
	for _, url := range []string{
		"", "pawl.db", "ftp://h/d", "mysql://h/d", "redis://h:1/0", "memory:x",
		"sqlite:", "sqlite::memory:", "sqlite:F?synchronous=some", "sqlite:F?cache=0", "sqlite:F?cache=-1",
		"sqlite:F?cach=1", "sqlite:F?%zz", "sqlite:F?codec=gzip", "sqlite:F?codec=%zz", "sqlite:F?offload=x",
		"sqlite:F?offload=1", "sqlite:F?offload=4096", "sqlite:F?fallback=memory:&patience=x",
		"sqlite:F?fallback=memory:&patience=-1s", "sqlite:F?fallback=nowhere", "sqlite:F?fallback=kafka://h:1",
		"sqlite:F?fallback=sqlite:G?cache=0", "memory:?fallback=memory:?fallback=memory:x",
		"postgres://u:" + secret + "@h/d?pawl_schema=A-B", "postgres://h/d?pawl_max_conns=2",
		"postgres://h/d?pawl_max_conns=x", "postgres://h/d?pawl_poll_only=maybe", "postgres://h/d?%zz",
		"postgres://u:" + secret + "@h/d?sslmode=some", "postgres://u:" + secret + "@h:x/d", "postgres://h:99999/d",
		"postgres://h/d?connect_timeout=x",
		"kafka:h", "kafka://", "kafka://h:x", "kafka://h:0", "kafka://h:99999", "kafka://h:1,", "kafka://:1",
		"kafka://h:1?foo=1", "kafka://h:1?session=5", "kafka://h:1?session=5ms", "kafka://h:1?partitions=x",
		"kafka://h:1?mechanism=some", "kafka://u@h:1", "kafka://u:%zz@h:1", "kafka://h:1?compression=some",
		"kafka://h:1?group=a+b", "kafka://h:1?cert=x", "kafka://h:1?dead_names=a",
	} {
		url = strings.Replace(url, "sqlite:F", "sqlite:"+file, 1)
		err := open.Check(url)
		if err == nil {
			t.Errorf("%s is taken", url)
			continue
		}
		s, refused := open.Open(t.Context(), open.Config{URL: url})
		if refused == nil {
			_ = s.Close()
			t.Errorf("%s is opened, and checked: %v", url, err)
		} else if !strings.Contains(refused.Error(), err.Error()) {
			t.Errorf("%s: checking says %v, opening %v", url, err, refused)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the password is in %v", err)
		}
	}
	for _, url := range []string{
		"memory:", "memory://", "sqlite:/nowhere/pawl.db?synchronous=normal&cache=1", "SQLite:pawl.db",
		"sqlite:pawl.db?codec=zstd&blobs=/nowhere&offload=4096", "kafka://h?fallback=sqlite:/nowhere/f.db&patience=5s",
		"postgres://u:p@h1:1,h2:2/d?sslmode=verify-full&sslrootcert=/nowhere/ca.pem&pawl_poll_only=true",
		"postgresql:///d?host=/run/postgresql&pawl_max_conns=4", "kafka://u:p@h:1,i:2?ca=/nowhere/ca.pem&tls=true",
		"kafka://[::1]:9092",
	} {
		if err := open.Check(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestTopicsOfTheStoreItself: only Kafka keeps data of its own in topics, under the names that its URL gives them.
func TestTopicsOfTheStoreItself(t *testing.T) {
	for url, taken := range map[string]string{
		"kafka://localhost:9092":                     "mail.dead pawl.state",
		"kafka://localhost:9092?dead_suffix=-dlt":    "mail-dlt pawl.state",
		"kafka://localhost:9092?dead_names=mail:old": "old mail.dead pawl.state",
		"sqlite:pawl.db":                             "",
		"nonsense":                                   "",
	} {
		for topic := range strings.FieldsSeq("mail mail.dead mail-dlt old pawl.state") {
			why, hint := open.CheckTopic(url, topic)
			want := slices.Contains(strings.Fields(taken), topic)
			if (why != "") != want || (hint != "") != want {
				t.Errorf("%s: topic %s: %q, %q", url, topic, why, hint)
			}
		}
	}
}

// TestOpenReturnsWhenItIsCancelled, and does not wait until a server or a lock has taken too long: 10 seconds.
func TestOpenReturnsWhenItIsCancelled(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	path := filepath.Join(t.TempDir(), "locked.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE t (a); BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"kafka://" + silent.Addr().String(), "sqlite:" + path} {
		ctx, cancel := context.WithCancelCause(t.Context())
		asked := errors.New("asked to stop")
		time.AfterFunc(100*time.Millisecond, func() { cancel(asked) })
		began := time.Now()
		if _, err := open.Open(ctx, open.Config{URL: url}); !errors.Is(err, asked) || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %v after %v", url, err, time.Since(began))
		}
	}
}
