"""Figures of a running server in the format of Prometheus."""

from __future__ import annotations

import prometheus_client as prometheus

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Metrics:
    """Requests and their times, and what is in use; each app has its own."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        self._requests = prometheus.Counter(
            "doxa_requests", "Requests by route and status.", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = prometheus.Histogram(
            "doxa_request_seconds", "Time to answer.", ["route"], buckets=SECONDS, registry=self.registry
        )
        self.model = prometheus.Info("doxa_model", "The model in use.", registry=self.registry)
        self.gauge("doxa_process_start_seconds", "When the server started.").set_to_current_time()
        prometheus.ProcessCollector(registry=self.registry)

    def gauge(self, name: str, about: str) -> prometheus.Gauge:
        """A gauge of this server."""
        return prometheus.Gauge(name, about, registry=self.registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(method if method in METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All figures."""
        return prometheus.generate_latest(self.registry)
