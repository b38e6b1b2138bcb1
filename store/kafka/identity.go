package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sasl/oauth"
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

// token reads the token for a connection.
func (s *Store) token(context.Context) (oauth.Auth, error) {
	text, err := os.ReadFile(s.cfg.TokenFile)
	if err != nil {
		return oauth.Auth{}, fmt.Errorf("the token for OAUTHBEARER: %w", err)
	}
	return oauth.Auth{Token: string(bytes.TrimSpace(text))}, nil
}
