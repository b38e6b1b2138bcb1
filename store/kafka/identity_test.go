package kafka_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store/kafka"
)

// selfSigned writes a certificate that signs itself, and its key.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: bare}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestCertificates: a broker is known by the authority that is named, and sees the
// certificate of this process.
func TestCertificates(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair},
		ClientAuth: tls.RequireAnyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	shown := make(chan []byte, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			secure := c.(*tls.Conn)
			if secure.Handshake() == nil {
				select {
				case shown <- secure.ConnectionState().PeerCertificates[0].Raw:
				default:
				}
			}
			_ = c.Close()
		}
	}()
	s, err := kafka.New(kafka.Config{Brokers: []string{l.Addr().String()}, CA: cert, Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	go func() { _ = s.Ping(t.Context()) }() // it is no broker
	select {
	case der := <-shown:
		if !bytes.Equal(der, pair.Certificate[0]) {
			t.Error("another certificate was shown")
		}
	case <-time.After(time.Minute):
		t.Error("no connection was made")
	}
	_, err = kafka.New(kafka.Config{Brokers: []string{"127.0.0.1:1"}, CA: key,
		Cert: filepath.Join(t.TempDir(), "none"), Key: key})
	if err == nil || !strings.Contains(err.Error(), "has no certificate") ||
		!strings.Contains(err.Error(), "cert and key") {
		t.Errorf("wrong files: %v", err)
	}
}
