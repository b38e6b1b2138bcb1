package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"

	"github.com/pawl-dev/pawl/store"
)

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

func (s *Store) bearer() sasl.Mechanism { return bearer{oauth.Oauth(s.token)} }

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

// token reads the token for a connection.
func (s *Store) token(context.Context) (oauth.Auth, error) {
	text, err := os.ReadFile(s.cfg.TokenFile)
	if err != nil {
		return oauth.Auth{}, fmt.Errorf("the token for OAUTHBEARER: %w", err)
	}
	return oauth.Auth{Token: string(bytes.TrimSpace(text))}, nil
}
