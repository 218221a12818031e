package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
)

// EnvCertificate is go-plugin's name of the environment variable with the host's certificate, as PEM.
const EnvCertificate = "PLUGIN_CLIENT_CERT"

// NewCertificate makes a certificate for one side of the connection to one process, by which the other side knows it:
// nobody else has its key, which stays in memory.
func NewCertificate(use x509.ExtKeyUsage) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("transport: key for requests: %w", err)
	}
	like := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{use},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().AddDate(30, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, like, like, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("transport: certificate for requests: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
