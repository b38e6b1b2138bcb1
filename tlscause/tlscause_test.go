package tlscause_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/tlscause"
)

// Each cause is found in what an HTTP client returns, and names what to change.
func TestCauses(t *testing.T) {
	quiet := log.New(io.Discard, "", 0)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = quiet
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	picky := httptest.NewUnstartedServer(http.NotFoundHandler())
	picky.Config.ErrorLog = quiet
	picky.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}
	picky.StartTLS()
	defer picky.Close()
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.Config.ErrorLog = quiet
	old.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11} //nolint:gosec // that is the case
	old.StartTLS()
	defer old.Close()
	nameless := httptest.NewUnstartedServer(http.NotFoundHandler())
	nameless.Config.ErrorLog = quiet
	nameless.TLS = &tls.Config{Certificates: []tls.Certificate{withoutNames(t)}}
	nameless.StartTLS()
	defer nameless.Close()
	strangers := map[string]*httptest.Server{}
	for alert, why := range map[string]error{"unrecognized name": nil, "internal error": errors.New("no such host")} {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = quiet
		s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			none := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, why }
			return &tls.Config{GetCertificate: none}, nil
		}}
		s.StartTLS()
		defer s.Close()
		strangers[alert] = s
	}
	roots := x509.NewCertPool()
	roots.AddCert(nameless.Certificate())
	roots.AddCert(secure.Certificate())
	advice := tlscause.Advice{Authority: "AUTHORITY", Name: "NAME", Plain: "PLAIN", Client: ": CLIENT"}
	for name, c := range map[string]struct {
		url       string
		with      *tls.Config
		want, own string
	}{
		"authority": {secure.URL, nil, "authority that is not known here: AUTHORITY", "SSL_CERT_FILE"},
		"host": {secure.URL, &tls.Config{RootCAs: roots, ServerName: "elsewhere.test"},
			"for another host: NAME; it states example.com, *.example.com, 127.0.0.1, ::1", "in the URL"},
		"no host":      {nameless.URL, &tls.Config{RootCAs: roots}, "states no host (Subject Alternative Name)", ""},
		"old versions": {old.URL, &tls.Config{InsecureSkipVerify: true}, "older versions of TLS only", ""},
		"expired": {secure.URL, &tls.Config{RootCAs: roots, Time: func() time.Time { return time.Unix(1<<33, 0) }},
			"not valid now: renew it", ""},
		"no TLS": {strings.Replace(plain.URL, "http:", "https:", 1), nil, "offers no TLS: PLAIN", "http://"},
		"no client": {picky.URL, &tls.Config{InsecureSkipVerify: true},
			"refuses the certificate of this process, or misses it: CLIENT", ""},
		"unrecognized name": {strangers["unrecognized name"].URL, nil, "no certificate for this host: NAME", "in the URL"},
		"internal error":    {strangers["internal error"].URL, nil, "no certificate for this host: NAME", "in the URL"},
		"nothing":           {"http://127.0.0.1:1", nil, "", ""},
	} {
		transport := &http.Transport{TLSClientConfig: c.with}
		answer, err := (&http.Client{Transport: transport}).Get(c.url)
		if err == nil {
			_ = answer.Body.Close()
			t.Fatalf("%s: no error", name)
		}
		if got := tlscause.Of(err, advice); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q of %v", name, got, err)
		}
		told := tlscause.Explain(err, tlscause.Advice{})
		if !errors.Is(told, err) || !strings.Contains(told.Error(), c.own) {
			t.Errorf("%s: %v", name, told)
		}
		transport.CloseIdleConnections()
	}
}

// withoutNames is a certificate as openssl makes it without an extension: its only name is that of its subject.
func withoutNames(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
