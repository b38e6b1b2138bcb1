package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestDoorWithoutTokensIsLocal: where another machine could come in, the door does not open, nor does a reload take the
// tokens away.
func TestDoorWithoutTokensIsLocal(t *testing.T) {
	token := []config.APIToken{{Name: "ops", Token: "secret-operator", Role: "operator"}}
	open := func(c config.API) (*Door, error) {
		d, err := OpenDoor(memory.New(memory.Config{}), DoorConfig{API: c, Logger: slog.New(slog.DiscardHandler)})
		t.Cleanup(d.Close)
		return d, err
	}
	if d, err := open(config.API{Listen: "0.0.0.0:0"}); d != nil || !errors.Is(err, ErrListen) ||
		!strings.Contains(err.Error(), "has no tokens") {
		t.Errorf("it opens to all: %v", err)
	}
	if _, err := open(config.API{Listen: "127.0.0.1:0"}); err != nil {
		t.Error(err)
	}
	d, err := open(config.API{Listen: "0.0.0.0:0", Tokens: token})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Reload(&config.API{Listen: "0.0.0.0:0"}); err == nil {
		t.Error("a reload takes the tokens away")
	}
	r, err := http.Get("http://" + strings.Replace(d.Address(), "[::]", "127.0.0.1", 1) + "/v1/topics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", r.Status)
	}
}

// TestDoorRenewsItsCertificate: it does not open without one, takes the one of a reload for connections to come, and
// keeps the one before if a reload finds none.
func TestDoorRenewsItsCertificate(t *testing.T) {
	dir := t.TempDir()
	c := config.API{Listen: "127.0.0.1:0", Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	open := func() (*Door, error) {
		d, err := OpenDoor(memory.New(memory.Config{}), DoorConfig{API: c, Logger: slog.New(slog.DiscardHandler)})
		t.Cleanup(d.Close)
		return d, err
	}
	if d, err := open(); d != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("without a certificate: %v", err)
	}
	certify(t, c, 1)
	d, err := open()
	if err != nil {
		t.Fatal(err)
	}
	shows := func(want int64) {
		t.Helper()
		conn, err := tls.Dial("tcp", d.Address(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if got := conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != want {
			t.Errorf("the certificate is %d, want %d", got, want)
		}
	}
	shows(1)
	certify(t, c, 2)
	if err := d.Reload(&c); err != nil {
		t.Fatal(err)
	}
	shows(2)
	if err := os.Remove(c.Key); err != nil {
		t.Fatal(err)
	}
	if err := d.Reload(&c); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a reload without a key: %v", err)
	}
	shows(2)
}

// certify writes a certificate of a number, and its key.
func certify(t *testing.T, c config.API, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		c.Cert: {Type: "CERTIFICATE", Bytes: der}, c.Key: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAStoreOfTheConsoleComesLater: what is carried out does not wait for it, and it is shown when it is there.
func TestAStoreOfTheConsoleComesLater(t *testing.T) {
	hung, err := net.Listen("tcp", "127.0.0.1:0") // it answers nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hung.Close() }()
	later := "sqlite:" + filepath.Join(t.TempDir(), "later.db")
	began := time.Now()
	d, err := OpenDoor(memory.New(memory.Config{}), DoorConfig{
		API: config.API{Listen: "127.0.0.1:0"}, Logger: slog.New(slog.DiscardHandler), again: 10 * time.Millisecond,
		Console: config.Console{Enabled: true, Stores: []config.ConsoleStore{{Name: "later", URL: later},
			{Name: "hung", URL: "postgres://x:y@" + hung.Addr().String() + "/x"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if took := time.Since(began); took > storeWait+5*time.Second {
		t.Errorf("the start takes %v", took)
	}
	page := func(path string) (int, string) {
		r, err := http.Get("http://" + d.Address() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	if code, _ := page("/console/@later/topics"); code != http.StatusNotFound {
		t.Errorf("before it is there: %d", code)
	}
	s, err := open.Open(t.Context(), open.Config{URL: later})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		code, text := page("/console/@later/topics")
		if code == http.StatusOK && strings.Contains(text, "later") && !strings.Contains(text, "@hung") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("when it is there: %d %s", code, text)
		}
	}
}
