// Package redact masks secrets in text: passwords in URLs, and registered secrets.
package redact
