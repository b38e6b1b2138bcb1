package tlscause_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
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
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	advice := tlscause.Advice{Authority: "AUTHORITY", Name: "NAME", Plain: "PLAIN"}
	for name, c := range map[string]struct {
		url       string
		with      *tls.Config
		want, own string
	}{
		"authority": {secure.URL, nil, "authority that is not known here: AUTHORITY", "SSL_CERT_FILE"},
		"host": {secure.URL, &tls.Config{RootCAs: roots, ServerName: "elsewhere.test"}, "for another host: NAME",
			"in the URL"},
		"expired": {secure.URL, &tls.Config{RootCAs: roots, Time: func() time.Time { return time.Unix(1<<33, 0) }},
			"not valid now: renew it", ""},
		"no TLS":    {strings.Replace(plain.URL, "http:", "https:", 1), nil, "offers no TLS: PLAIN", "http://"},
		"no client": {picky.URL, &tls.Config{InsecureSkipVerify: true}, "refuses the certificate of this process", ""},
		"nothing":   {"http://127.0.0.1:1", nil, "", ""},
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
