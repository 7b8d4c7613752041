package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// A Target is a server, and who asks it.
type Target struct {
	URL    string // scheme, host and port
	Client string // file of the client's certificate and key; none if empty
}

// A connection is one to a target, open from its first exchange to its first failure.
type connection struct {
	target Target
	conn   net.Conn
	reader *bufio.Reader
	buffer bytes.Buffer
}

// exchange sends a request and reads its answer, which is good with a status of 2xx and `expect`
// in its body.  A connection that was idle may have been closed: then it is opened once more.
func (c *connection) exchange(method, path, kind, body, expect string) error {
	wasOpen := c.conn != nil
	answer, content, err := c.attempt(method, path, kind, body)
	if err != nil && wasOpen {
		answer, content, err = c.attempt(method, path, kind, body)
	}
	if err == nil && (answer.StatusCode/100 != 2 || !bytes.Contains(content, []byte(expect))) {
		err = fmt.Errorf("%s: %.300s", answer.Status, content)
	}
	return err
}

// attempt sends a request and reads its answer; an error ends the connection.
func (c *connection) attempt(method, path, kind, body string) (*http.Response, []byte, error) {
	if err := c.connect(); err != nil {
		return nil, nil, err
	}
	c.buffer.Reset()
	fmt.Fprintf(&c.buffer, "%s %s HTTP/1.1\r\nhost: localhost\r\naccept: application/json, */*\r\n", method, path)
	fmt.Fprintf(&c.buffer, "content-type: %s\r\ncontent-length: %d\r\n\r\n%s", kind, len(body), body)
	if _, err := c.conn.Write(c.buffer.Bytes()); err != nil {
		return nil, nil, c.broken(err)
	}
	answer, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return nil, nil, c.broken(err)
	}
	content, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || answer.Close {
		c.broken(err)
	}
	return answer, content, err
}

// connect opens the connection, if it is not open.  Servers are on the loopback, so their
// certificates are not verified.
func (c *connection) connect() error {
	if c.conn != nil {
		return nil
	}
	target, err := url.Parse(c.target.URL)
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", target.Host)
	if err != nil {
		return err
	}
	if target.Scheme == "https" {
		settings := &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}
		if c.target.Client != "" {
			own, err := tls.LoadX509KeyPair(c.target.Client, c.target.Client)
			if err != nil {
				return err
			}
			settings.Certificates = []tls.Certificate{own}
		}
		conn = tls.Client(conn, settings)
	}
	c.conn, c.reader = conn, bufio.NewReaderSize(conn, 32<<10)
	return nil
}

// broken closes the connection; the next exchange opens another.
func (c *connection) broken(why error) error {
	c.conn.Close()
	c.conn = nil
	return why
}
