package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"

	"github.com/seed98097648/tune/internal/wire"
)

// encryption returns how the host connects to one process, and the environment that tells the process about it. Both
// sides make a certificate for this one process: nobody else gets an answer from the plugin, and nobody else answers
// for it. That is go-plugin's AutoMTLS but for the curve: go-plugin signs by P-521, for which Go has no assembly: half
// of the processor time of a start. Go-plugin adds the certificate that a plugin prints to the
// configuration, also where nobody connects: it would panic without one.
func (o Options) encryption() (config *tls.Config, environment []string, err error) {
	config = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "localhost"}
	if o.how.doorbell != nil { // to which nobody connects
		return config, nil, nil
	}
	own, err := wire.NewCertificate(x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, nil, err
	}
	config.Certificates = []tls.Certificate{own}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})
	return config, []string{wire.EnvCertificate + "=" + string(text)}, nil
}
