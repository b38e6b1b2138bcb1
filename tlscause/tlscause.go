// Package tlscause says why TLS with a server failed, where that is certain, and what to change.
package tlscause

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// Advice is what to change, by the cause. What is empty has an answer for programs that know no setting.
type Advice struct {
	Authority string // an authority that is not known
	Name      string // a certificate for another host
	Plain     string // a server without TLS
	Client    string // a server that wants another certificate of this process; added to the cause
}

// Of returns what is wrong with TLS and what to change, in one sentence; empty if the error does not say.
func Of(err error, a Advice) string {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	name, other := errors.AsType[x509.HostnameError](err)
	invalid, bad := errors.AsType[x509.CertificateInvalidError](err)
	_, noRecord := errors.AsType[tls.RecordHeaderError](err)
	op, _ := errors.AsType[*net.OpError](err)
	or := func(advice, otherwise string) string {
		if advice == "" {
			return otherwise
		}
		return advice
	}
	switch {
	case err == nil:
		return ""
	case unknown:
		return "the server's certificate is signed by an authority that is not known here: " + or(a.Authority,
			"add it to those of this machine, or name its file in SSL_CERT_FILE")
	case other && names(name.Certificate) == "":
		return "the server's certificate states no host (Subject Alternative Name): make one there that does"
	case other:
		return "the server's certificate is for another host: " + or(a.Name, "use a name that it states in the URL") +
			"; it states " + names(name.Certificate)
	case bad && invalid.Reason == x509.Expired:
		return "the server's certificate is not valid now: renew it on the server, or set this machine's clock"
	case noRecord, errors.Is(err, http.ErrSchemeMismatch), strings.Contains(err.Error(), "server refused TLS connection"):
		return "the server offers no TLS: " + or(a.Plain, "switch it on there, or say http:// in a network that you trust")
	case strings.Contains(err.Error(), "protocol version not supported"),
		strings.Contains(err.Error(), "server selected unsupported protocol version"):
		return "the server speaks older versions of TLS only: switch on TLS 1.2 or 1.3 there"
	case op != nil && op.Op == "remote error" && hasAny(op.Error(), "unrecognized name", "internal error"):
		return "the server has no certificate for this host: " + or(a.Name, "use a name that it knows in the URL") +
			", or see its log"
	case op != nil && op.Op == "remote error" && hasAny(op.Error(), "certificate", "access denied", "handshake failure"):
		return "the server refuses the certificate of this process, or misses it" + a.Client
	}
	return ""
}

func hasAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// names are the hosts that a certificate states; not all, if it has many.
func names(c *x509.Certificate) string {
	all := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	return strings.Join(all[:min(len(all), 5)], ", ")
}

// Explain returns err with what is wrong with TLS and what to change; err itself if it does not say.
func Explain(err error, a Advice) error {
	if why := Of(err, a); why != "" {
		return fmt.Errorf("%w: %s", err, why)
	}
	return err
}
