{{/* The DNS name of a part of the release, such as its hub. Argument: (list $ "hub"). Also a name without a Service. */}}
{{- define "zmon.dnsName" -}}
{{ include "zmon.fullname" (index . 0) }}-{{ index . 1 }}.{{ (index . 0).Release.Namespace }}.svc
{{- end }}

{{/* The name in the certificates of all agents and hubs, by which clients know them whatever address they use. */}}
{{- define "zmon.serverName" -}}zmon.internal{{- end }}

{{- define "zmon.scheme" -}}{{ if eq .Values.tls.mode "none" }}http{{ else }}https{{ end }}{{- end }}

{{/* The Secret with the certificate of a part. Argument: (list $ "hub"). */}}
{{- define "zmon.tlsSecret" -}}
{{- $root := index . 0 -}}
{{- if eq $root.Values.tls.mode "secrets" -}}
{{ required (printf "tls.secrets.%s is empty: name a Secret with tls.crt, tls.key and ca.crt" (index . 1)) (index $root.Values.tls.secrets (index . 1)) }}
{{- else -}}
{{ include "zmon.fullname" $root }}-{{ index . 1 }}-tls
{{- end -}}
{{- end }}

{{/* A certificate of cert-manager. Argument: dict root part namespace names usages. */}}
{{- define "zmon.certificate" -}}
{{- $issuer := .root.Values.tls.certManager.issuer -}}
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ include "zmon.fullname" .root }}-{{ .part }}
  namespace: {{ .namespace }}
  labels: {{ include "zmon.labels" (list .root .part) | nindent 4 }}
spec:
  secretName: {{ include "zmon.tlsSecret" (list .root .part) }}
  duration: {{ .root.Values.tls.certManager.duration }}
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Always}
  usages: {{ toJson .usages }}
  dnsNames: {{ toJson .names }}
  issuerRef:
    name: {{ required "tls.certManager.issuer.name is empty: name an issuer of cert-manager that signs for both namespaces, or set tls.mode to secrets" $issuer.name }}
    kind: {{ $issuer.kind }}
    group: {{ $issuer.group }}
{{- end }}

{{/* The section tls_server_config of a web configuration. */}}
{{- define "zmon.tlsServer" -}}
tls_server_config:
  cert_file: tls/tls.crt
  key_file: tls/tls.key
  client_ca_file: tls/ca.crt
  client_auth_type: VerifyClientCertIfGiven # the probes of the kubelet have none, and ask only /livez and /readyz
{{- end }}

{{/* How Prometheus shows its certificate. Argument: $. */}}
{{- define "zmon.scrapeTls" -}}
{{- $secret := include "zmon.tlsSecret" (list . "prometheus") -}}
scheme: https
tlsConfig:
  serverName: {{ include "zmon.serverName" . }}
  ca: {secret: {name: {{ $secret }}, key: ca.crt}}
  cert: {secret: {name: {{ $secret }}, key: tls.crt}}
  keySecret: {name: {{ $secret }}, key: tls.key}
{{- end }}
