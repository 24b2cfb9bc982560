# The image of the demo service in docker-compose.yml: the engine with everything but Spark and Java.
FROM python:3.11-slim

RUN useradd --create-home --uid 10001 lakehouse

COPY constraints.txt pyproject.toml README.md LICENSE /src/
COPY lakehouse /src/lakehouse
RUN pip install --no-cache-dir --constraint /src/constraints.txt "/src[fast,fulltext,service,sql]"

USER lakehouse
WORKDIR /home/lakehouse
CMD ["lakehouse", "demo"]
